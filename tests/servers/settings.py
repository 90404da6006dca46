"""Configuration directories of the servers: hive-site.xml and the settings of the log."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

# to standard output, which goes to the log file of the process; all that could be told cost a tenth of the time
LOG4J = """\
status = ERROR
name = tests
appenders = out
appender.out.type = Console
appender.out.name = out
appender.out.target = SYSTEM_OUT
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %5p [%t] %c{2}: %m%n
rootLogger.level = WARN
rootLogger.appenderRefs = out
rootLogger.appenderRef.out.ref = out
loggers = datanucleus, pool
logger.datanucleus.name = DataNucleus
logger.datanucleus.level = ERROR
logger.pool.name = com.zaxxer
logger.pool.level = WARN
"""
LOG4J_FILE = "log4j2.properties"
# the library itself, the metastore, HiveServer2 and what runs inside a query
_LOG4J_OPTIONS = ("log4j2.configurationFile", "metastore.log4j.file", "hive.log4j.file", "hive.exec.log4j.file")


def write_settings(directory: Path, properties: Mapping[str, str]) -> None:
    """Fills a configuration directory, made when it is not there."""
    directory.mkdir(parents=True, exist_ok=True)
    write_site(directory / "hive-site.xml", properties)
    (directory / LOG4J_FILE).write_text(LOG4J)


def log_options(directory: Path) -> list[str]:
    """What tells a server to take the settings of its log from a directory and nowhere else."""
    return [f"-D{name}={directory / LOG4J_FILE}" for name in _LOG4J_OPTIONS]


def write_site(path: Path, properties: Mapping[str, str]) -> None:
    """Writes one file of properties as Hadoop reads it."""
    root = ElementTree.Element("configuration")
    for name, value in properties.items():
        entry = ElementTree.SubElement(root, "property")
        ElementTree.SubElement(entry, "name").text = name
        ElementTree.SubElement(entry, "value").text = value
    ElementTree.indent(root)
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
