"""What only Hadoop itself can open, asked for through the JVM that Spark has on the driver.

Names and small files alone: no data file is read or written that way, and nothing is changed. A task has no such JVM.
Nothing outside this package knows py4j.
"""
