"""What differs for a driver whose machine Spark chose (`--deploy-mode cluster`)."""

QUEUE_IN_A_FILE = (
    "Cannot use the queue in a file of the driver's machine: because Spark chooses that machine anew for each run "
    "(--deploy-mode cluster); --queue-url names a database that each of them reaches"
)
