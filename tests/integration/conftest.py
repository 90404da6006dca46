"""Jobs in this process with a queue of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.harness import Jobs, local_session


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Jobs:
    """The jobs, without Spark, on a new queue."""
    monkeypatch.setattr("acidlib.engine.command.SparkSession", local_session)
    monkeypatch.setenv("ACIDLIB_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HIVE_CONF_DIR", raising=False)
    monkeypatch.delenv("ACIDLIB_QUEUE_URL", raising=False)
    return Jobs(queue_url=f"sqlite:///{tmp_path / 'queue.db'}")
