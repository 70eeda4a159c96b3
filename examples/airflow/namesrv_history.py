"""The nights of namesrv-history in Airflow: each night what has arrived, each Sunday maintenance, never both at once.

Put the file into the DAG folder and set the Airflow variables that it reads. It needs Airflow 3 and nothing
else: the wrapper brings its own environment, on the worker and on the machines of a cluster, so a BashOperator is enough.

What an exit code means to Airflow: 0 is success. 3 (published, but some input could not be read) shows as skipped, for
somebody to look at. All others fail the task, also 13 (an input folder is empty) and 14 (published, but answers do not match);
the retry helps with 1 (unexpected), 5 (warehouse busy) and a mount that comes back, and does no harm with the rest: nothing
is published twice, and what was published before stays.
"""

from __future__ import annotations

import datetime as dt

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

WRAPPER = "{{ var.value.get('namesrv_history_home', '/opt/namesrv-history') }}/spark-submit.sh"
INCOMING = "{{ var.value.namesrv_history_incoming }}"
WAREHOUSE = "{{ var.value.namesrv_history_warehouse }}"
# Such as: --master yarn --executor-memory 4g; nothing: the worker itself
SPARK_OPTIONS = "{{ var.value.get('namesrv_history_spark_options', '') }}"
INPUT_UNREADABLE = 3

with DAG(
    "namesrv_history",
    schedule="10 1 * * *",
    start_date=dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc),
    # A night reads whatever has arrived, so one run makes up for all that were missed ...
    catchup=False,
    # ... and one at a time may write.
    max_active_runs=1,
    default_args={"retries": 1, "retry_delay": dt.timedelta(minutes=30)},
):
    BashOperator(
        task_id="nightly",
        bash_command=f"{WRAPPER} nightly {SPARK_OPTIONS} --input {INCOMING} --warehouse {WAREHOUSE}",
        skip_on_exit_code=INPUT_UNREADABLE,
    )

with DAG(
    "namesrv_history_maintenance",
    schedule="30 3 * * 0",
    start_date=dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc),
    catchup=False,
    max_active_runs=1,
    # Its lease may still be held by a long night: the warehouse lets one run in at a time, and the other ends with code 5.
    default_args={"retries": 3, "retry_delay": dt.timedelta(minutes=30)},
):
    BashOperator(
        task_id="maintain",
        bash_command=f"{WRAPPER} maintain {SPARK_OPTIONS} --warehouse {WAREHOUSE} --retain-days 400",
    )
