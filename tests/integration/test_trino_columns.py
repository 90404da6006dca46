"""Trino and tables whose columns changed: after a compaction it reads what Hive 3.1 reads by name.

Of files with ACID columns Trino 476 takes columns by position, of original files by name; ``hive.orc.use-column-names``
changes neither. Only with ACIDLIB_TRINO=1, see ``test_trino``.
"""
# ruff: noqa: S608 - the statements are for a server of the test's own

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from judges.hive_reader import hive_reader
from servers.metastore import Metastore
from servers.trino import OLDEST_JAVA, Trino, new_java

from integration.conftest import started
from integration.hive3_site import Site
from integration.hive3_tables import Laid
from integration.test_columns_of_metastore import change_columns

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(os.environ.get("ACIDLIB_TRINO") != "1", reason="ACIDLIB_TRINO=1 brings and starts Trino"),
    pytest.mark.skipif(find_spec("trino") is None, reason="its client is missing: pip install 'acidlib[trino]'"),
    pytest.mark.skipif(new_java() is None, reason=f"Trino needs a JDK {OLDEST_JAVA} or newer, see JAVA24_HOME"),
]
RENAMED = {"id": "int", "note": "string"}
ADDED = {"id": "int", "new": "string", "value": "string"}


@pytest.fixture(scope="module")
def trino(hive3_metastore: Metastore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trino]:
    java = new_java()
    assert java is not None
    server = Trino(hive3_metastore, java=java, directory=tmp_path_factory.mktemp("trino"))
    started(server.__enter__)
    try:
        yield server
    finally:
        server.__exit__(None, None, None)


def by_hive(location: Path, columns: dict[str, str], write_ids: str) -> list[str]:
    rows = hive_reader(3).rows(location, columns, write_ids=write_ids)
    texts = [[value[2:] if isinstance(value, str) else value for value in row[3]] for row in rows]
    return sorted(map(repr, texts))


@pytest.mark.parametrize("fixture", ["a_crud", "g_orig"])
@pytest.mark.parametrize("columns", [RENAMED, ADDED], ids=["renamed", "added"])
def test_after_a_major_trino_reads_what_hive_3_reads(
    own: Site, trino: Trino, fixture: str, columns: dict[str, str]
) -> None:
    laid: Laid = own.lay(fixture)
    change_columns(own, laid.name, columns)

    def by_trino() -> list[str]:
        return sorted(repr(list(row)) for row in trino.run(f"select * from {laid.full_name}"))

    before = by_hive(laid.location, columns, laid.write_ids())
    assert by_trino() != before  # by position: what was in the column of that place
    own.good("major_compact", "--table", laid.full_name)
    assert by_hive(laid.location, columns, laid.write_ids()) == before
    assert by_trino() == before
