"""What a run is given."""

from __future__ import annotations

from pathlib import Path

import pytest
from servers.settings import write_site

from acidlib.engine.environment import SHIPPED_BY_YARN, read_environment


@pytest.mark.parametrize(
    ("placed", "own", "found"),
    [(True, False, "shipped"), (True, True, "own"), (False, False, None), (False, True, "own")],
)
def test_a_driver_that_yarn_started_reads_what_spark_has_shipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, placed: bool, own: bool, found: str | None
) -> None:
    """Unless its container has a configuration of its own."""
    monkeypatch.chdir(tmp_path)
    for name, place in (("shipped", SHIPPED_BY_YARN), ("own", Path("conf"))):
        place.mkdir(parents=True)
        write_site(place / "core-site.xml", {"fs.defaultFS": f"hdfs://{name}"})
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    if own:
        monkeypatch.setenv("HADOOP_CONF_DIR", "conf")
    given = read_environment(metastore=(), queue_url=None, assignments=(), output="text", is_placed=placed)
    assert given.hadoop.get("fs.defaultFS") == (found and f"hdfs://{found}")
