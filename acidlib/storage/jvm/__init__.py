"""What only Hadoop itself knows, asked for through the JVM that Spark has on the driver.

Mount tables with links by expressions, what is kept in credential providers and truststores, and delegation tokens: no
data file is read or written that way. A task has no such JVM. Nothing outside this package knows py4j.
"""
