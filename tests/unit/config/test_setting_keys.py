"""Settings of a metastore's compactor: every name of Hive 3.1.3 and 4.0.1, and flags."""

from __future__ import annotations

import pytest

from acidlib.config.keys import CONNECTION_NAMES, KEYS, find_key, is_hives
from acidlib.config.settings import Layer, default_settings, load_settings
from acidlib.errors import RefusedError, UsageError
from acidlib.metastore.options import CA_FILE, PASSWORD_FILE

TAKEN = {
    "hive.compactor.aborted.txn.time.threshold": "12h",
    "hive.compactor.abortedtxn.threshold": "1000",
    "hive.compactor.active.delta.dir.threshold": "200",
    "hive.compactor.clean.aborts.using.cleaner": "true",
    "hive.compactor.cleaner.on": "false",
    "hive.compactor.cleaner.retention.time.seconds": "300s",
    "hive.compactor.cleaner.retry.maxattempts": "5",
    "hive.compactor.cleaner.retry.retention.time": "300s",
    "hive.compactor.cleaner.retry.retentionTime": "300s",
    "hive.compactor.compact.insert.only": "true",
    "hive.compactor.delayed.cleanup.enabled": "false",
    "hive.compactor.delta.num.threshold": "10",
    "hive.compactor.delta.pct.threshold": "0.1",
    "hive.compactor.fetch.size": "1000",
    "hive.compactor.gather.stats": "true",
    "hive.compactor.history.retention.attempted": "2",
    "hive.compactor.history.retention.did.not.initiate": "2",
    "hive.compactor.history.retention.failed": "3",
    "hive.compactor.history.retention.refused": "3",
    "hive.compactor.history.retention.succeeded": "3",
    "hive.compactor.history.retention.timeout": "7d",
    "hive.compactor.initiator.failed.compacts.threshold": "2",
    "hive.compactor.initiator.failed.retry.time": "7d",
    "hive.compactor.job.queue": "",
    "hive.compactor.max.num.delta": "500",
    "hive.compactor.obsolete.delta.dir.threshold": "200",
    "hive.compactor.run.as.user": "",
    "hive.compactor.small.delta.dir.threshold": "200",
    "hive.compactor.worker.timeout": "86400s",
    "hive.txn.timeout": "300s",
    "metastore.acidmetrics.table.aborted.txns.threshold": "1500",
    "metastore.compactor.clean.aborts.using.cleaner": "true",
    "metastore.compactor.cleaner.on": "false",
    "metastore.compactor.failed.compaction.ratio.threshold": "0.01",
    "metastore.compactor.fetch.size": "1000",
    "metastore.compactor.history.retention.attempted": "2",
    "metastore.compactor.history.retention.did.not.initiate": "2",
    "metastore.compactor.history.retention.failed": "3",
    "metastore.compactor.history.retention.refused": "3",
    "metastore.compactor.history.retention.succeeded": "3",
    "metastore.compactor.history.retention.timeout": "7d",
    "metastore.compactor.initiator.failed.compacts.threshold": "2",
    "metastore.compactor.initiator.failed.retry.time": "7d",
    "metastore.compactor.oldest.initiated.compaction.time.threshold.error": "12h",
    "metastore.compactor.oldest.initiated.compaction.time.threshold.warning": "1h",
    "metastore.compactor.oldest.open.txn.threshold.error": "72h",
    "metastore.compactor.oldest.open.txn.threshold.warning": "24h",
    "metastore.compactor.oldest.uncleaned.aborted.txn.time.threshold.error": "48h",
    "metastore.compactor.oldest.uncleaned.aborted.txn.time.threshold.warning": "24h",
    "metastore.compactor.oldest.uncleaned.compaction.time.threshold": "24h",
    "metastore.compactor.run.as.user": "",
    "metastore.compactor.tables.with.aborted.txn.threshold": "1",
    "metastore.deltametrics.delta.pct.threshold": "0.01",
    "metastore.txn.timeout": "300s",
}
"""Names that HiveConf and MetastoreConf of the two have, with their defaults."""

HIVES_OWN = (
    "acid.metrics.logger.frequency",
    "check.interval",
    "cleaner.duration.update.interval",
    "cleaner.run.interval",
    "cleaner.tablecache.on",
    "cleaner.threads.num",
    "completed.txn.components.record.threshold.error",
    "completed.txn.components.record.threshold.warning",
    "connectionPool.maxPoolSize",
    "crud.query.based",
    "enable.stats.compression",
    "history.reaper.interval",
    "initiator.duration.update.interval",
    "initiator.on",
    "initiator.tablecache.on",
    "long.running.initiator.threshold.error",
    "long.running.initiator.threshold.warning",
    "number.of.disabled.compaction.tables.threshold",
    "oldest.replication.open.txn.threshold.error",
    "oldest.replication.open.txn.threshold.warning",
    "request.queue",
    "txn.to.writeid.record.threshold.error",
    "txn.to.writeid.record.threshold.warning",
    "use.custom.pool",
    "wait.timeout",
    "worker.detect.multiple.versions.threshold",
    "worker.max.sleep.time",
    "worker.pool.timeout",
    "worker.sleep.time",
    "worker.threads",
)
"""The endings of the rest, which say nothing to this engine."""


@pytest.mark.parametrize("name", TAKEN)
def test_names_and_defaults_are_hives(name: str) -> None:
    key = find_key(name)
    assert key is not None
    assert key.default == TAKEN[name]
    for layer in (Layer.HIVE_SITE, Layer.METASTORE_SITE, Layer.TOML, Layer.COMMAND_LINE):
        settings, warnings = default_settings().with_layer(layer, {name: TAKEN[name] or "x"})
        told = key.inert and layer in (Layer.TOML, Layer.COMMAND_LINE)
        assert warnings == ((f"{name} in {layer.label} has no effect here",) if told else ())
        assert settings.source(name) == layer.label


@pytest.mark.parametrize(
    "name",
    [
        *(key.name for key in KEYS if key.spelling is None and not key.of_readers),
        "metastore.compactor.cleaner.on",
        "hive.compactor.run.as.user",
    ],
)
def test_a_property_without_effect_is_told(name: str) -> None:
    for layer in (Layer.DATABASE, Layer.TABLE):
        for given in (f"compactor.{name}", f"compactorthreshold.{name}", name):
            assert default_settings().with_layer(layer, {given: TAKEN.get(name, "500")}) == (
                default_settings(),
                (f"{given} as {layer.label} has no effect here",),
            )


@pytest.mark.parametrize("ending", HIVES_OWN)
def test_the_rest_of_hives_names_is_known_to_mean_nothing(ending: str) -> None:
    for name in (f"hive.compactor.{ending}", f"metastore.compactor.{ending}"):
        assert is_hives(name)
        for layer in (Layer.HIVE_SITE, Layer.METASTORE_SITE):
            assert default_settings().with_layer(layer, {name: "1"}) == (default_settings(), ())
        assert default_settings().with_layer(Layer.COMMAND_LINE, {name: "1"})[1] == (
            f"{name} in --set has no effect here",
        )


@pytest.mark.parametrize("name", ["hive.compaction.merge.enabled", "hive.split.grouping.mode"])
def test_other_settings_of_hives_compactor_are_refused_nowhere(name: str) -> None:
    assert default_settings().with_layer(Layer.HIVE_SITE, {name: "1"}) == (default_settings(), ())
    assert load_settings(assignments=[f"{name}=1"]).warnings == (f"{name} in --set has no effect here",)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "hive.compactor.oldest.open.txn.treshold.error",
            "metastore.compactor.fetchsize",
            "hive.compactor.worker.thread",
        ),
        *("hive.compactor.small.delta.dirs.threshold", "acidlib.lock.timeouts", "metastore.compactor.oldest.threshold"),
    ],
)
def test_a_name_that_nobody_has_is_told(name: str) -> None:
    _, warnings = default_settings().with_layer(Layer.HIVE_SITE, {name: "1"})
    assert warnings == (f"{name} in hive-site.xml is not known and has no effect",)


def test_names_of_the_connection_belong_into_site_files() -> None:
    assert {CA_FILE, PASSWORD_FILE} == CONNECTION_NAMES
    for name in CONNECTION_NAMES:
        for layer in (Layer.HIVE_SITE, Layer.METASTORE_SITE):
            assert default_settings().with_layer(layer, {name: "/file"}) == (default_settings(), ())
        assert default_settings().with_layer(Layer.TOML, {name: "/file"})[1] == (
            f"{name} in acidlib.toml is not known and has no effect",
        )
        with pytest.raises(UsageError, match="no such setting"):
            load_settings(assignments=[f"{name}=/file"])


def test_names_of_other_namespaces_are_passed_over() -> None:
    names = ("hive.txn.timeouts", "metastore.txn.opentxn.timeout", "mapreduce.job.queuename", "hive.txn.manager")
    assert default_settings().with_layer(Layer.HIVE_SITE, dict.fromkeys(names, "x")) == (default_settings(), ())


@pytest.mark.parametrize(
    ("name", "milliseconds"),
    [
        ("hive.txn.timeout", 7000),
        ("hive.compactor.worker.timeout", 7000),
        ("hive.compactor.cleaner.retention.time.seconds", 7000),
        ("metastore.compactor.cleaner.retry.retention.time", 7000),
        ("hive.compactor.aborted.txn.time.threshold", 7 * 3_600_000),
        ("metastore.compactor.history.retention.timeout", 7 * 86_400_000),
        ("metastore.compactor.initiator.failed.retry.time", 7 * 86_400_000),
        ("acidlib.lock.timeout", 7000),
    ],
)
def test_a_bare_number_is_in_hives_unit(name: str, milliseconds: int) -> None:
    settings, _ = default_settings().with_layer(Layer.METASTORE_SITE, {name: "7"})
    assert settings.integer(name) == milliseconds


def test_defaults_of_a_metastore() -> None:
    settings = default_settings()
    assert settings.integer("hive.txn.timeout") == 300_000
    assert settings.integer("hive.compactor.cleaner.retention.time.seconds") == 300_000
    assert settings.integer("metastore.compactor.fetch.size") == 1000
    assert settings.integer("acidlib.lock.timeout") == 30_000
    assert settings.text("metastore.compactor.run.as.user") == ""
    flags = ("compact.insert.only", "clean.aborts.using.cleaner", "cleaner.on", "delayed.cleanup.enabled")
    assert [settings.flag(f"hive.compactor.{name}") for name in flags] == [True, True, False, False]


def test_a_value_is_found_by_any_of_its_names() -> None:
    settings, _ = default_settings().with_layer(Layer.HIVE_SITE, {"metastore.txn.timeout": "60s"})
    for name in ("hive.txn.timeout", "metastore.txn.timeout"):
        assert (settings.integer(name), settings.source(name)) == (60_000, "hive-site.xml")


@pytest.mark.parametrize(("text", "value"), [("true", True), ("TRUE", True), (" false ", False), ("False", False)])
def test_flags(text: str, value: bool) -> None:
    name = "hive.compactor.delayed.cleanup.enabled"
    settings, _ = default_settings().with_layer(Layer.HIVE_SITE, {name: text})
    assert settings.flag(name) is value
    assert settings.text(name) == str(value).lower()


@pytest.mark.parametrize("text", ["yes", "1", "truE!"])
def test_what_is_no_flag_is_refused(text: str) -> None:
    with pytest.raises(RefusedError, match=r"metastore\.compactor.*=.* from --set: because it is not true or false"):
        load_settings(assignments=[f"metastore.compactor.clean.aborts.using.cleaner={text}"])


def test_a_database_and_a_table_may_say_otherwise() -> None:
    may = {key.name: key.spelling.value + key.name for key in KEYS if key.spelling is not None}
    assert may == {
        "hive.compactor.delta.num.threshold": "compactorthreshold.hive.compactor.delta.num.threshold",
        "hive.compactor.delta.pct.threshold": "compactorthreshold.hive.compactor.delta.pct.threshold",
        "hive.compactor.abortedtxn.threshold": "compactor.hive.compactor.abortedtxn.threshold",
        "hive.compactor.worker.pool": "hive.compactor.worker.pool",
    }
    for name, given in may.items():
        settings, warnings = default_settings().with_layer(Layer.DATABASE, {given: "7"})
        assert (settings.setting(name).text, settings.source(name), warnings) == ("7", "database property", ())
        settings, warnings = settings.with_layer(Layer.TABLE, {given: "8"})
        assert (settings.setting(name).text, settings.source(name), warnings) == ("8", "table property", ())
