#!/usr/bin/env bash
# Runs a job with spark-submit, in an environment of the project's own that is made when it is missing:
#   ./spark-submit.sh [spark-submit options] jobs/JOB.py [job options]
# Our own words go to standard error; standard output is the job's.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
"$root/conf/make-env.sh" >&2
python="$root/.venv/bin/python"
export PYSPARK_PYTHON="${PYSPARK_PYTHON:-$python}"
export PYSPARK_DRIVER_PYTHON="${PYSPARK_DRIVER_PYTHON:-$python}"
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
master="local"
option=""
for word in "$@"; do
  case "$option $word" in
    "--master "*) master="$word" ;;
    *" --master="* | *" spark.master="*) master="${word#*master=}" ;;
  esac
  option="$word"
done
java_options="-Dlog4j2.configurationFile=file:$root/conf/log4j2.properties"
if [[ "$master" == local* ]]; then
  # nobody on another machine has to find this driver
  export SPARK_LOCAL_IP="${SPARK_LOCAL_IP:-127.0.0.1}"
  # this JVM starts workers and passes bytes on: to optimise its code takes longer than to run it as it is
  java_options+=" -XX:TieredStopAtLevel=1"
fi
if [[ -z "${SPARK_HOME:-}" ]]; then
  SPARK_HOME="$("$python" -c 'import pyspark, pathlib; print(pathlib.Path(pyspark.__file__).parent)')"
  export SPARK_HOME
fi
if [[ ! -t 2 ]]; then
  # the job writes to our standard error beside the JVM: through a pipe neither overwrites the other in a log file
  exec 2> >(exec cat >&2)
fi
exec "$SPARK_HOME/bin/spark-submit" \
  --driver-java-options "$java_options" "$@"
