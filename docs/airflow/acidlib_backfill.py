"""One partition a day, for each day from the start date on; a day without a partition is done.

Copy this file into Airflow's folder of DAGs, and change the words below where they do not fit.
"""

import os
from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

ACIDLIB = os.environ.get("ACIDLIB", "/opt/acidlib/bin/acidlib")
SPARK = os.environ.get("ACIDLIB_SPARK", "")
# with a metastore: --table sales.orders
TABLE = os.environ.get("ACIDLIB_BACKFILL", "--table sales.orders")
ENVIRONMENT = {"HIVE_CONF_DIR": os.environ.get("HIVE_CONF_DIR", "/etc/hive/conf")}

with DAG(
    dag_id="acidlib_backfill",
    schedule="@daily",
    start_date=datetime(2026, 1, 1),
    catchup=True,
    max_active_runs=4,
    default_args={"retries": 1, "retry_delay": timedelta(minutes=5)},
) as dag:
    BashOperator(
        task_id="compact",
        bash_command=f"{ACIDLIB} {SPARK} major-compact {TABLE} --partition 'ds={{{{ ds }}}}' --if-exists",
        env=ENVIRONMENT,
        append_env=True,
    )
