#!/bin/sh
# What a container of Spark on Kubernetes runs: `driver` or `executor`, as Spark says with its variables; else a command.
set -eu

case "${1:-}" in
  driver)
    shift
    exec tini -s -- "$SPARK_HOME/bin/spark-submit" --deploy-mode client \
      --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
      --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" "$@"
    ;;
  executor)
    set -- --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
      --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
      --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
    set -- "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
      -cp "${SPARK_CONF_DIR:-$SPARK_HOME/conf}:${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}$SPARK_HOME/jars/*" \
      org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend "$@"
    # SPARK_JAVA_OPT_0 and on: options of the JVM, in their order
    number=0
    while eval "[ -n \"\${SPARK_JAVA_OPT_$number-}\" ]"; do number=$((number + 1)); done
    while [ "$number" -gt 0 ]; do
      number=$((number - 1))
      eval "set -- \"\$SPARK_JAVA_OPT_$number\" \"\$@\""
    done
    exec tini -s -- java "$@"
    ;;
  *)
    # the first process of a container gets no signal that it does not ask for: tini passes SIGTERM on
    exec tini -s -- "$@"
    ;;
esac
