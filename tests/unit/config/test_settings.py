"""Settings: layers, names, units, warnings; every name of Hive 3.1.3 and 4.0.1; and the example file."""

from __future__ import annotations

from pathlib import Path

import pytest
from servers.settings import write_site

from acidlib.config.files import read_site
from acidlib.config.keys import CONNECTION_NAMES, KEYS, find_key, is_hives
from acidlib.config.settings import Layer, Settings, default_settings, load_settings, read_toml
from acidlib.documents import TOML
from acidlib.errors import CorruptError, RefusedError, UsageError
from acidlib.metastore.options import CA_FILE, PASSWORD_FILE
from acidlib.planning.initiate import DELTA_NUM_KEY, DELTA_PCT_KEY

ABORTED_TXN_TIME_KEY = "hive.compactor.aborted.txn.time.threshold"
SOURCES = "\n".join(
    path.read_text()
    for folder in ("acidlib", "jobs")
    for path in sorted((TOML.parents[1] / folder).rglob("*.py"))
    if path.name not in ("keys.py",)
)


def layered(layer: Layer, values: dict[str, str], start: Settings | None = None) -> Settings:
    settings, warnings = (start or default_settings()).with_layer(layer, values)
    assert warnings == ()
    return settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (DELTA_NUM_KEY, 10),
        (DELTA_PCT_KEY, 0.1),
        ("hive.compactor.worker.timeout", 86_400_000),
        (ABORTED_TXN_TIME_KEY, 43_200_000),
        ("acidlib.minor.as.major.bytes", 268_435_456),
        ("hive.compactor.job.queue", ""),
        ("hive.compactor.clean.aborts.using.cleaner", True),
    ],
)
def test_defaults_are_read_by_their_kind(name: str, value: object) -> None:
    found = default_settings().setting(name)
    assert (found.value, found.layer.label) == (value, "default")


def test_a_name_that_is_not_known_has_no_value() -> None:
    with pytest.raises(KeyError):
        default_settings().integer("hive.compactor.delta.num")


def test_each_layer_wins_over_the_one_before(tmp_path: Path) -> None:
    write_site(
        tmp_path / "hive-site.xml", {DELTA_NUM_KEY: "1", DELTA_PCT_KEY: "0.5", "hive.compactor.worker.timeout": "100"}
    )
    write_site(tmp_path / "metastore-site.xml", {DELTA_NUM_KEY: "2", "javax.jdo.option.ConnectionURL": "x"})
    toml = tmp_path / "acidlib.toml"
    toml.write_text(f'"{DELTA_NUM_KEY}" = 3\nhive.compactor.job.queue = "etl"\n')
    settings = load_settings(conf_dir=tmp_path, toml=toml)
    assert settings.warnings == ()
    assert (settings.integer(DELTA_NUM_KEY), settings.setting(DELTA_NUM_KEY).layer.label) == (3, "acidlib.toml")
    assert (settings.setting(DELTA_PCT_KEY).value, settings.setting(DELTA_PCT_KEY).layer.label) == (
        0.5,
        "hive-site.xml",
    )
    assert settings.integer("hive.compactor.worker.timeout") == 100_000
    assert settings.text("hive.compactor.job.queue") == "etl"
    table_key = f"compactorthreshold.{DELTA_NUM_KEY}"
    for layer, number in ((Layer.DATABASE, 4), (Layer.TABLE, 5)):
        settings = layered(layer, {table_key: str(number)}, settings)
        assert (settings.integer(DELTA_NUM_KEY), settings.setting(DELTA_NUM_KEY).layer.label) == (number, layer.label)
    assert layered(Layer.DATABASE, {table_key: "7"}, settings).integer(DELTA_NUM_KEY) == 5
    fixed = load_settings(conf_dir=tmp_path, toml=toml, assignments=[f"{DELTA_NUM_KEY}=8"])
    assert layered(Layer.TABLE, {table_key: "5"}, fixed).integer(DELTA_NUM_KEY) == 8
    thresholds = layered(Layer.TABLE, {table_key: "5"}, fixed).thresholds()
    assert (thresholds[DELTA_NUM_KEY].value, thresholds[DELTA_NUM_KEY].source) == (8, "--set")
    assert (thresholds[DELTA_PCT_KEY].value, thresholds[DELTA_PCT_KEY].source) == (0.5, "hive-site.xml")


@pytest.mark.parametrize(
    ("text", "ms"),
    [*(("12h", 43_200_000), ("2", 7_200_000), ("90s", 90_000), ("-1", -3_600_000), ("5 ms", 5)), ("90m", 5_400_000)],
)
def test_times_have_units(text: str, ms: int) -> None:
    settings, _ = default_settings().with_layer(Layer.COMMAND_LINE, {ABORTED_TXN_TIME_KEY: text})
    assert settings.integer(ABORTED_TXN_TIME_KEY) == ms


def test_missing_site_files_are_no_settings(tmp_path: Path) -> None:
    assert load_settings(conf_dir=tmp_path, hadoop_dir=tmp_path) == load_settings() == default_settings()


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("metastore.compactor.delta.num.threshold", DELTA_NUM_KEY),
        ("hive.compactor.history.retention.failed", "metastore.compactor.history.retention.failed"),
        ("metastore.compactor.history.retention.attempted", "metastore.compactor.history.retention.did.not.initiate"),
        ("hive.compactor.history.retention.attempted", "metastore.compactor.history.retention.did.not.initiate"),
        ("metastore.compactor.worker.pool", "hive.compactor.worker.pool"),
    ],
)
def test_either_of_hives_names_is_taken(given: str, meant: str) -> None:
    settings = layered(Layer.METASTORE_SITE, {given: "7"})
    for name in (given, meant):
        assert (settings.setting(name).text, settings.setting(name).layer.label) == ("7", "metastore-site.xml")


def test_the_main_name_wins_within_a_layer() -> None:
    values = {DELTA_NUM_KEY: "1", "metastore.compactor.delta.num.threshold": "2"}
    assert layered(Layer.HIVE_SITE, values).integer(DELTA_NUM_KEY) == 1
    retention = "metastore.compactor.history.retention"
    values = {f"{retention}.did.not.initiate": "1", f"{retention}.attempted": "2"}
    assert layered(Layer.HIVE_SITE, values).integer(f"{retention}.attempted") == 1
    pool = "hive.compactor.worker.pool"
    values = {f"compactor.{pool}": "first", "compactor.metastore.compactor.worker.pool": "second"}
    assert layered(Layer.TABLE, values).text(pool) == "first"
    assert layered(Layer.HIVE_SITE, {"mapreduce.job.queuename": "hadoop's"}).text("hive.compactor.job.queue") == ""


def test_unknown_keys_are_named() -> None:
    _, warnings = default_settings().with_layer(
        Layer.HIVE_SITE,
        {
            "hive.compactor.delta.num.treshold": "5",
            "metastore.compactor.nothing": "5",
            "hive.compactor.initiator.on": "true",
            "hive.compactor.worker.etl.threads": "2",
            "hive.execution.engine": "tez",
            DELTA_PCT_KEY: "",
        },
    )
    assert warnings == (
        "hive.compactor.delta.num.treshold in hive-site.xml is not known and has no effect",
        "metastore.compactor.nothing in hive-site.xml is not known and has no effect",
    )
    _, warnings = default_settings().with_layer(Layer.TOML, {"hive.compactor.initiator.on": "true", "retention": "1d"})
    assert warnings == (
        "hive.compactor.initiator.on in acidlib.toml has no effect here",
        "retention in acidlib.toml is not known and has no effect",
    )


def test_table_properties_need_hives_prefixes() -> None:
    settings, warnings = default_settings().with_layer(
        Layer.TABLE,
        {
            DELTA_NUM_KEY: "5",
            f"compactor.{DELTA_PCT_KEY}": "0.5",
            "compactorthreshold.hive.compactor.job.queue": "x",
            "compactorthreshold.hive.compactor.delta.number": "x",
            "compactor.mapreduce.map.memory.mb": "2048",
            "transactional": "true",
            "NO_AUTO_COMPACTION": "true",
            "hive.compactor.worker.pool": "etl",
        },
    )
    assert settings.text("hive.compactor.worker.pool") == "etl"
    assert [item for item in settings.values.values() if item.layer is Layer.TABLE] == [
        settings.setting("hive.compactor.worker.pool")
    ]
    assert sorted(warnings) == [
        f"compactor.{DELTA_PCT_KEY} as table property has no effect; it is compactorthreshold.{DELTA_PCT_KEY} there",
        "compactorthreshold.hive.compactor.delta.number as table property is not known and has no effect",
        "compactorthreshold.hive.compactor.job.queue as table property has no effect here",
        f"{DELTA_NUM_KEY} as table property has no effect; it is compactorthreshold.{DELTA_NUM_KEY} there",
    ]


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("hive.compactor.delta.num.treshold=5", "no such setting"),
        ("spark.master=local", "no such setting"),
        ("fs.s3a.endpoint=x", r"Hadoop, for core-site.xml in HADOOP_CONF_DIR, or as spark.hadoop.fs.s3a.endpoint for "),
        ("hive.metastore.uris=thrift://h", "connection to the metastore, for hive-site.xml in HIVE_CONF_DIR$"),
        ("metastore.acidmetrics.table.aborted.txns.treshold=5", r"did you mean metastore\.acidmetrics\."),
        (DELTA_NUM_KEY, "not of the form key=value"),
        ("=5", "not of the form key=value"),
        (f"{DELTA_NUM_KEY}=five", f"{DELTA_NUM_KEY}=five from --set: it is not a whole number"),
        (f"{DELTA_NUM_KEY}=-1", "less than 0"),
        (f"{DELTA_NUM_KEY}=1.5", "not a whole number"),
        (f"{DELTA_PCT_KEY}=nan", "not a number"),
        (f"{DELTA_PCT_KEY}=10%", "not a number"),
        *(
            (f"metastore.compactor.clean.aborts.using.cleaner={text}", "not true or false")
            for text in ("yes", "1", "truE!")
        ),
        ("hive.compactor.worker.timeout=1y", "not a duration"),
        ("hive.compactor.worker.timeout=-1", "less than 0"),
        ("acidlib.minor.as.major.bytes=1p", "not a size"),
        ("metastore.compactor.initiator.failed.compacts.threshold=0", "less than 1"),
    ],
)
def test_wrong_assignments_are_refused(assignment: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_settings(assignments=[assignment])


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="no such directory"):
        load_settings(conf_dir=tmp_path / "absent")
    with pytest.raises(RefusedError, match="no such file"):
        load_settings(toml=tmp_path / "absent.toml")
    broken = tmp_path / "hive-site.xml"
    broken.write_text("<configuration><property>")
    with pytest.raises(CorruptError, match=r"hive-site\.xml: it is not XML"):
        read_site(broken)
    broken.write_bytes(b"a = \xff")
    with pytest.raises(CorruptError, match="not TOML"):
        read_toml(broken)
    broken.write_text("a = [1]")
    with pytest.raises(RefusedError, match="neither a text nor a number"):
        read_toml(broken)


def test_a_bad_value_in_a_site_file_names_its_source(tmp_path: Path) -> None:
    write_site(tmp_path / "hive-site.xml", {DELTA_NUM_KEY: "many"})
    with pytest.raises(RefusedError, match=r"=many from hive-site\.xml: it is not a whole number"):
        load_settings(conf_dir=tmp_path)


def test_the_example_names_every_key_with_its_default(tmp_path: Path) -> None:
    assert read_toml(TOML) == {}
    active = tmp_path / "acidlib.toml"
    active.write_text(TOML.read_text().replace('#"', '"'))
    assert read_toml(active) == {key.name: key.default for key in KEYS}


def test_every_setting_is_read_by_somebody_or_said_to_be_without_effect() -> None:
    assert {key.name for key in KEYS if f'"{key.name}"' in SOURCES} == {key.name for key in KEYS if not key.inert}


BY_DEFAULT = {
    "": "job.queue run.as.user",
    "0.01": "failed.compaction.ratio.threshold",
    "0.1": "delta.pct.threshold",
    "1": "tables.with.aborted.txn.threshold",
    "10": "delta.num.threshold",
    "1000": "abortedtxn.threshold fetch.size",
    "12h": "aborted.txn.time.threshold oldest.initiated.compaction.time.threshold.error",
    "1h": "oldest.initiated.compaction.time.threshold.warning",
    "2": "history.retention.attempted history.retention.did.not.initiate initiator.failed.compacts.threshold",
    "200": "active.delta.dir.threshold obsolete.delta.dir.threshold small.delta.dir.threshold",
    "24h": "oldest.open.txn.threshold.warning oldest.uncleaned.aborted.txn.time.threshold.warning "
    "oldest.uncleaned.compaction.time.threshold",
    "3": "history.retention.failed history.retention.refused history.retention.succeeded",
    "300s": "cleaner.retention.time.seconds cleaner.retry.retention.time cleaner.retry.retentionTime",
    "48h": "oldest.uncleaned.aborted.txn.time.threshold.error",
    "5": "cleaner.retry.maxattempts",
    "500": "max.num.delta",
    "72h": "oldest.open.txn.threshold.error",
    "7d": "history.retention.timeout initiator.failed.retry.time",
    "86400s": "worker.timeout",
    "false": "cleaner.on delayed.cleanup.enabled",
    "true": "clean.aborts.using.cleaner compact.insert.only gather.stats",
}
TAKEN = {
    f"{prefix}.compactor.{ending}": default
    for default, endings in BY_DEFAULT.items()
    for ending in endings.split()
    for prefix in ("hive", "metastore")
} | {
    "hive.txn.timeout": "300s",
    "metastore.acidmetrics.table.aborted.txns.threshold": "1500",
    "metastore.deltametrics.delta.pct.threshold": "0.01",
    "metastore.txn.timeout": "300s",
}
"""Names that HiveConf and MetastoreConf of the two have, with their defaults."""

HIVES_OWN = """
    acid.metrics.logger.frequency check.interval cleaner.duration.update.interval cleaner.run.interval
    cleaner.tablecache.on cleaner.threads.num completed.txn.components.record.threshold.error
    completed.txn.components.record.threshold.warning connectionPool.maxPoolSize crud.query.based
    enable.stats.compression history.reaper.interval initiator.duration.update.interval initiator.on
    initiator.tablecache.on long.running.initiator.threshold.error long.running.initiator.threshold.warning
    number.of.disabled.compaction.tables.threshold oldest.replication.open.txn.threshold.error
    oldest.replication.open.txn.threshold.warning request.queue txn.to.writeid.record.threshold.error
    txn.to.writeid.record.threshold.warning use.custom.pool wait.timeout worker.detect.multiple.versions.threshold
    worker.max.sleep.time worker.pool.timeout worker.sleep.time worker.threads
"""
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
        assert settings.setting(name).layer.label == layer.label


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


@pytest.mark.parametrize("ending", HIVES_OWN.split())
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
        with pytest.raises(UsageError, match=r"in HIVE_CONF_DIR$"):
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


@pytest.mark.parametrize(("text", "value"), [("true", True), ("TRUE", True), (" false ", False), ("False", False)])
def test_flags(text: str, value: bool) -> None:
    name = "hive.compactor.delayed.cleanup.enabled"
    settings, _ = default_settings().with_layer(Layer.HIVE_SITE, {name: text})
    assert settings.flag(name) is value
    assert settings.text(name) == str(value).lower()


def test_a_database_and_a_table_may_say_otherwise() -> None:
    may = {key.name: key.spelling.value + key.name for key in KEYS if key.spelling is not None}
    assert may == {
        "hive.compactor.delta.num.threshold": "compactorthreshold.hive.compactor.delta.num.threshold",
        "hive.compactor.delta.pct.threshold": "compactorthreshold.hive.compactor.delta.pct.threshold",
        "hive.compactor.abortedtxn.threshold": "compactor.hive.compactor.abortedtxn.threshold",
        "hive.compactor.worker.pool": "hive.compactor.worker.pool",
    }
    for name, given in may.items():
        settings = default_settings()
        for layer, text in ((Layer.DATABASE, "7"), (Layer.TABLE, "8")):
            settings = layered(layer, {given: text}, settings)
            assert (settings.setting(name).text, settings.setting(name).layer) == (text, layer)
