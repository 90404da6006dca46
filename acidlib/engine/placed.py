"""What differs for a driver whose machine Spark chose (`--deploy-mode cluster`)."""

QUEUE_IN_A_FILE = (
    "Cannot use the queue in a file of the driver's machine: because Spark chooses that machine anew for each run "
    "(--deploy-mode cluster); --queue-url names a database that each of them reaches"
)


def other_queue(name: str) -> str:
    """Why a driver does not go on that YARN has started in a queue that nobody chose."""
    return (
        f"Cannot use the queue {name} of YARN (hive.compactor.job.queue): because spark-submit has started this driver "
        "in another one (--deploy-mode cluster); start it with the command acidlib or ./spark-submit.sh, or give "
        f"spark-submit --queue {name}"
    )
