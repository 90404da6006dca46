"""Compaction as a service, every hour: initiator, both compactions beside each other, cleaner, status.

Copy this file into Airflow's folder of DAGs, and change the words below where they do not fit.
"""

import os
from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

# the command of an installation
ACIDLIB = os.environ.get("ACIDLIB", "/opt/acidlib/bin/acidlib")
# before the job: options of spark-submit, such as --master yarn --queue compaction
SPARK = os.environ.get("ACIDLIB_SPARK", "")
# which tables the initiator looks at: all of the metastore, or such as --table 'sales.*'
TABLES = os.environ.get("ACIDLIB_TABLES", "")
ENVIRONMENT = {"HIVE_CONF_DIR": os.environ.get("HIVE_CONF_DIR", "/etc/hive/conf")}


def job(name: str, words: str = "", **more: object) -> BashOperator:
    """A task that fails when the job could not be done, or some places failed; a refusal is no failure."""
    return BashOperator(
        task_id=name.replace("-", "_"),
        bash_command=f"{ACIDLIB} {SPARK} {name} {words}",
        env=ENVIRONMENT,
        append_env=True,
        **more,
    )


with DAG(
    dag_id="acidlib_service",
    schedule="@hourly",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 1, "retry_delay": timedelta(minutes=5)},
) as dag:
    initiator = job("initiator", TABLES)
    compactions = [job(name, "--time-budget 40m") for name in ("minor-compact", "major-compact")]
    # what is done is cleaned, also when a few places failed
    cleaner = job("cleaner", trigger_rule="all_done")
    status = job("status", trigger_rule="all_done")
    initiator >> compactions >> cleaner >> status
