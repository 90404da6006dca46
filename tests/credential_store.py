"""Hadoop's credential providers, made by Hadoop itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark import SparkContext
from servers.java import SMALL

from acidlib.execute.spark import hadoop_in_jvm

PROVIDERS = "hadoop.security.credential.provider.path"


def credential_store(file: Path, passwords: Mapping[str, str], *, scheme: str = "jceks") -> str:
    """Makes a store with passwords by their names, as `hadoop credential create` does; its URI."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("SPARK_LAUNCHER_OPTS", " ".join(SMALL))
        jvm, configuration = hadoop_in_jvm()
    uri = f"{scheme}://file{file}"
    for name, password in passwords.items():
        words = ["create", name, "-value", password, "-provider", uri]
        array = SparkContext._gateway.new_array(jvm.java.lang.String, len(words))
        for number, word in enumerate(words):
            array[number] = word
        shell = jvm.org.apache.hadoop.security.alias.CredentialShell()
        shell.setConf(configuration)
        assert shell.run(array) == 0, words[:2]
    return uri
