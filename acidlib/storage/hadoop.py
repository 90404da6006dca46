"""Hadoop's configuration, as far as stores are concerned: core-site.xml and hdfs-site.xml of HADOOP_CONF_DIR."""

import re
from collections.abc import Mapping
from pathlib import Path

from acidlib.setting_files import read_site

_FILES = ("core-site.xml", "hdfs-site.xml")
_STORES = (
    *("fs.defaultFS", "fs.hdfs.impl", "fs.permissions.umask-mode", "fs.s3a.", "fs.viewfs.mounttable.", "dfs."),
    "hadoop.security.",
)
_REFERENCE = re.compile(r"\$\{([^}$\s]+)\}")
_MOST_REFERENCES = 20  # as Hadoop has it


def read_hadoop_configuration(directory: Path) -> dict[str, str]:
    """What core-site.xml and hdfs-site.xml of a directory say about stores, references to other properties filled in.

    Raises `CorruptError` for a file that is no XML. References to the environment stay as they are.
    """
    found: dict[str, str] = {}
    for name in _FILES:
        found |= read_site(directory / name)
    return about_stores({name: _filled(value, found) for name, value in found.items()})


def about_stores(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that stores go by; no others travel to tasks."""
    return {name: value for name, value in properties.items() if name.startswith(_STORES)}


def _filled(value: str, properties: Mapping[str, str]) -> str:
    for _ in range(_MOST_REFERENCES):
        match = next((found for found in _REFERENCE.finditer(value) if found[1] in properties), None)
        if match is None:
            break
        value = value[: match.start()] + properties[match[1]] + value[match.end() :]
    return value
