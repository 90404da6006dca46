"""The metrics: their names keep Prometheus' conventions, and the dashboard and the rules use no other."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from prometheus_client.parser import text_string_to_metric_families

from acidlib.cli.jobs import status
from acidlib.config.settings import default_settings
from acidlib.documents import MONITORING, ROOT, monitoring_text
from acidlib.errors import RetryError
from acidlib.model.requests import CompactionRequest, CompactionType, State
from acidlib.model.status import FindingKind, PlaceFigures, Transaction
from acidlib.model.tables import TableRef
from acidlib.planning.health import KnownTransaction, ListedFigures, StatusSnapshot, status_document
from acidlib.report.text import status_text
from acidlib.runs.machine import Machine
from acidlib.status.look import limits_of
from acidlib.status.metrics import METRICS, Look, write_metrics


def place_of(ref: TableRef) -> ListedFigures:
    figures = PlaceFigures(**ref._asdict(), location="/w", deltas=3, ratio=0.5, obsolete_bytes=10)
    return ListedFigures(figures=figures)


SNAPSHOT = StatusSnapshot(
    now_ms=10_000_000,
    requests=(
        CompactionRequest(id=1, ref=TableRef("db", 'a "b"'), type=CompactionType.MAJOR, enqueue_ms=1_000_000),
        CompactionRequest(id=2, ref=TableRef("db", "t"), type=CompactionType.MAJOR, state=State.FAILED),
    ),
    transactions=(
        KnownTransaction(shown=Transaction(id=1, user="u", host="h", age=5.0), is_open=True, silent=1.0),
        KnownTransaction(shown=Transaction(id=2, user="u", host="h", age=7.0), is_open=False, silent=None),
    ),
    blockers=(),
    aborted={TableRef("db", "t"): 4},
    places=(place_of(TableRef("db", "t", "p=1")),),
    known_places=2,
)
DASHBOARD, RULES = ROOT / "docs" / "grafana-dashboard.json", ROOT / "docs" / "alert-rules.yml"
RUNBOOK = ROOT / "docs" / "runbook.md"
_NAME = re.compile(r"\bacidlib_[a-z_]+\b")


def written(
    path: Path, snapshot: StatusSnapshot = SNAPSHOT, *, tables: int = 2
) -> dict[tuple[str, tuple[str, ...]], float]:
    status = status_document(snapshot, limits_of(default_settings()))
    looked = replace(status, tables=status.tables[:tables])
    write_metrics(Look(status=looked, ms=10_000_000, seconds=1.5), str(path))
    families = text_string_to_metric_families(path.read_text())
    return {
        (sample.name, tuple(sample.labels.values())): sample.value for family in families for sample in family.samples
    }


def test_every_figure_is_in_the_file(tmp_path: Path) -> None:
    found = written(tmp_path / "a.prom")
    assert {name for name, _ in found} == {metric.name for metric in METRICS}
    assert found["acidlib_status_level", ()] == 1
    assert found["acidlib_oldest_request_age_seconds", ("initiated",)] == 9_000
    assert found["acidlib_requests", ("failed",)] == 1
    assert found["acidlib_findings", ("warning", "initiated_for_long")] == 1
    assert found["acidlib_oldest_open_transaction_age_seconds", ()] == 5
    assert found["acidlib_places_looked_at", ()] == 1
    assert found["acidlib_table_status_level", ("db", 'a "b"')] == 1
    assert found["acidlib_table_obsolete_bytes", ("db", "t")] == 10
    assert [path.name for path in tmp_path.iterdir()] == ["a.prom"]
    assert ("acidlib_table_obsolete_bytes", ("db", "t")) not in written(tmp_path / "a.prom", tables=0)


def test_what_is_not_known_has_no_sample(tmp_path: Path) -> None:
    found = written(
        tmp_path / "a.prom", replace(SNAPSHOT, transactions=None, blockers=None, places=None, known_places=None)
    )
    names = {name for name, _ in found}
    assert not [name for name in names if "transaction" in name or "blockers" in name or "deltas" in name]
    assert not {"acidlib_places", "acidlib_obsolete_bytes", "acidlib_aborted_write_ids"} & names


def test_names_hold_nothing_that_a_terminal_interprets(tmp_path: Path) -> None:
    evil = TableRef("db", "t\x1b]0;pwned\x07\nERROR\udcff")
    snapshot = replace(SNAPSHOT, aborted={evil: 4}, places=(place_of(evil),))
    written(tmp_path / "m.prom", snapshot, tables=9)
    status = status_document(snapshot, limits_of(default_settings()))
    for text in ((tmp_path / "m.prom").read_text(), status_text(status)):
        assert "pwned" in text
        assert all(char.isprintable() for char in text.replace("\n", ""))
        assert "\nERROR" not in text


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_names_keep_the_conventions(metric: Any) -> None:
    assert re.fullmatch(r"acidlib(_[a-z]+)+", metric.name)
    assert not metric.name.endswith(("_total", "_count", "_sum", "_bucket", "_info")), "it is a gauge"
    assert ("age" in metric.name.split("_") or "duration" in metric.name) <= metric.name.endswith("_seconds")
    assert metric.help.endswith(".")


def test_a_file_that_cannot_be_written_is_told_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "a.prom").mkdir()
    with pytest.raises(RetryError, match=r"Cannot write the metrics to .*a\.prom:"):
        written(tmp_path / "a.prom")
    assert [path.name for path in tmp_path.iterdir()] == ["a.prom"]


def status_into(path: Path, *words: str, machine: Machine | None = None) -> Result:
    """A status of no tables, whose metrics go to a path."""
    alone = ("--places", "0", "--metastore-uri", "none", "--queue-url", "sqlite://")
    return CliRunner().invoke(status, ["--metrics-file", str(path), *alone, *words], obj=machine)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("a.prom", "Cannot make metrics: prometheus_client is not installed; pip install 'acidlib[metrics]'"),
        ("none/a.prom", "Cannot write the metrics to {0}/none/a.prom: {0}/none is no directory"),
        ("b.prom", "Cannot write the metrics to {0}/b.prom: it exists and is no file"),
    ],
)
def test_metrics_that_cannot_be_made_are_told_before_anything_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, told: str
) -> None:
    if name == "a.prom":
        monkeypatch.setitem(sys.modules, "prometheus_client", None)
    (tmp_path / "b.prom").mkdir()

    def asked(**_: Any) -> Any:
        pytest.fail("the look has begun")

    ran = status_into(tmp_path / name, "--output", "json", machine=Machine(session=asked))
    assert ran.exit_code == 1
    assert json.loads(ran.stdout)["error"] == {"kind": "refused", "message": told.format(tmp_path)}
    assert len(ran.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["b.prom"]


@pytest.mark.parametrize("output", ["json", "text"])
def test_metrics_that_cannot_be_written_cost_nothing_else(tmp_path: Path, output: str) -> None:
    whole = status_into(tmp_path / "a.prom", "--output", output)
    assert (whole.exit_code, (tmp_path / "a.prom").is_file()) == (0, True)
    long = tmp_path / f"{'a' * 245}.prom"  # that of the temporary file beside it is too long
    ran = status_into(long, "--output", output)
    assert ran.exit_code == 1
    if output == "json":
        assert json.loads(ran.stdout).keys() == json.loads(whole.stdout).keys()
    else:
        assert ran.stdout == whole.stdout
    (line,) = (line for line in ran.stderr.splitlines() if "Cannot write" in line)
    assert line.endswith(f"Cannot write the metrics to {long}: File name too long; what was done is done")
    assert [path.name for path in tmp_path.iterdir()] == ["a.prom"]


def test_the_table_of_the_document_is_up_to_date() -> None:
    assert MONITORING.read_text() == monitoring_text(MONITORING.read_text()), "python -m acidlib.documents makes it"


def test_the_dashboard_shows_every_metric_and_no_other() -> None:
    document = json.loads(DASHBOARD.read_text())
    used = {
        name for panel in document["panels"] for target in panel["targets"] for name in _NAME.findall(target["expr"])
    }
    assert used == {metric.name for metric in METRICS}
    assert len({panel["id"] for panel in document["panels"]}) == len(document["panels"])


def test_the_rules_use_metrics_that_there_are() -> None:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    names = {name for rule in group["rules"] for name in _NAME.findall(rule["expr"])}
    assert names < {metric.name for metric in METRICS}
    for rule in group["rules"]:
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        assert rule["annotations"]["summary"]
    states = {state.label.replace(" ", "_") for state in State}
    assert set(re.findall(r'state="(.+?)"', RULES.read_text())) <= states
    kinds = {trouble.value.replace(" ", "_") for trouble in FindingKind}
    assert set(re.findall(r'kind="(.+?)"', RULES.read_text())) <= kinds


def test_the_runbook_has_every_alert() -> None:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    (section,) = re.findall(r"^## By alert$(.*?)^## ", RUNBOOK.read_text(), re.MULTILINE | re.DOTALL)
    assert re.findall(r"`(Acidlib\w+)`", section) == [rule["alert"] for rule in group["rules"]]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_takes_rules_and_metrics(tmp_path: Path) -> None:
    written(tmp_path / "a.prom")
    subprocess.run(["promtool", "check", "rules", str(RULES)], check=True)
    subprocess.run(["promtool", "check", "metrics"], input=(tmp_path / "a.prom").read_bytes(), check=True)
