"""One partition a day by a Spark connection, which names the master; plain spark-submit starts the job.

Copy this file into Airflow's folder of DAGs, and change the words below where they do not fit. What Airflow needs
besides it is in docs/clusters.md.
"""

import os
from datetime import datetime, timedelta

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

# an installation on Airflow's workers
PYTHON = os.environ.get("ACIDLIB_PYTHON", "/opt/acidlib/bin/python")
PACKAGES = os.environ.get("ACIDLIB_PACKAGES", "/opt/acidlib/lib/python3.11/site-packages")
# with a metastore: --table sales.orders
TABLE = os.environ.get("ACIDLIB_BACKFILL", "--table sales.orders")

with DAG(
    dag_id="acidlib_spark_submit",
    schedule="@daily",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    default_args={"retries": 1, "retry_delay": timedelta(minutes=5)},
) as dag:
    SparkSubmitOperator(
        task_id="compact",
        conn_id="spark_default",
        name="acidlib",
        application=f"{PACKAGES}/acidlib/cli/entry/acidlib_job.py",
        application_args=["major-compact", *TABLE.split(), "--partition", "ds={{ ds }}", "--if-exists"],
        env_vars={
            "PYSPARK_PYTHON": PYTHON,
            "PYSPARK_DRIVER_PYTHON": PYTHON,
            "HIVE_CONF_DIR": os.environ.get("HIVE_CONF_DIR", "/etc/hive/conf"),
        },
    )
