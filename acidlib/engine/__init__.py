"""The services: initiator, worker and cleaner. `spark` alone imports pyspark."""
