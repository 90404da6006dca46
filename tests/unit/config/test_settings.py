"""Settings: layers, names, units, warnings, and the example file."""

from pathlib import Path

import pytest
from servers.settings import write_site

from acidlib.config.files import read_site
from acidlib.config.keys import KEYS, Key
from acidlib.config.settings import Layer, Settings, default_settings, load_settings, read_toml
from acidlib.documents import TOML
from acidlib.errors import CorruptError, RefusedError
from acidlib.planning.initiate import ABORTED_TXN_KEY, DELTA_NUM_KEY, DELTA_PCT_KEY

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


def test_the_defaults_are_hives() -> None:
    settings = default_settings()
    assert settings.integer(DELTA_NUM_KEY) == 10
    assert settings.setting(DELTA_PCT_KEY).value == 0.1
    assert settings.integer("hive.compactor.worker.timeout") == 86_400_000
    assert settings.integer("hive.compactor.aborted.txn.time.threshold") == 43_200_000
    assert settings.integer("metastore.compactor.initiator.failed.retry.time") == 7 * 86_400_000
    assert settings.integer("acidlib.minor.as.major.bytes") == 268_435_456
    assert settings.text("hive.compactor.job.queue") == ""
    assert settings.source(DELTA_NUM_KEY) == "default"
    values = {key: (found.value, found.source) for key, found in settings.thresholds().items()}
    assert values == {
        DELTA_NUM_KEY: (10, "default"),
        DELTA_PCT_KEY: (0.1, "default"),
        "hive.compactor.abortedtxn.threshold": (1000, "default"),
    }
    with pytest.raises(KeyError):
        settings.integer("hive.compactor.delta.num")


def test_each_layer_wins_over_the_one_before(tmp_path: Path) -> None:
    write_site(
        tmp_path / "hive-site.xml", {DELTA_NUM_KEY: "1", DELTA_PCT_KEY: "0.5", "hive.compactor.worker.timeout": "100"}
    )
    write_site(tmp_path / "metastore-site.xml", {DELTA_NUM_KEY: "2", "javax.jdo.option.ConnectionURL": "x"})
    toml = tmp_path / "acidlib.toml"
    toml.write_text(f'"{DELTA_NUM_KEY}" = 3\nhive.compactor.job.queue = "etl"\n')
    settings = load_settings(conf_dir=tmp_path, toml=toml)
    assert settings.warnings == ()
    assert (settings.integer(DELTA_NUM_KEY), settings.source(DELTA_NUM_KEY)) == (3, "acidlib.toml")
    assert (settings.setting(DELTA_PCT_KEY).value, settings.source(DELTA_PCT_KEY)) == (0.5, "hive-site.xml")
    assert settings.integer("hive.compactor.worker.timeout") == 100_000
    assert settings.text("hive.compactor.job.queue") == "etl"
    table_key = f"compactorthreshold.{DELTA_NUM_KEY}"
    for layer, number in ((Layer.DATABASE, 4), (Layer.TABLE, 5)):
        settings = layered(layer, {table_key: str(number)}, settings)
        assert (settings.integer(DELTA_NUM_KEY), settings.source(DELTA_NUM_KEY)) == (number, layer.label)
    assert layered(Layer.DATABASE, {table_key: "7"}, settings).integer(DELTA_NUM_KEY) == 5
    fixed = load_settings(conf_dir=tmp_path, toml=toml, assignments=[f"{DELTA_NUM_KEY}=8"])
    assert layered(Layer.TABLE, {table_key: "5"}, fixed).integer(DELTA_NUM_KEY) == 8
    thresholds = layered(Layer.TABLE, {table_key: "5"}, fixed).thresholds()
    assert (thresholds[DELTA_NUM_KEY].value, thresholds[DELTA_NUM_KEY].source) == (8, "--set")
    assert (thresholds[DELTA_PCT_KEY].value, thresholds[DELTA_PCT_KEY].source) == (0.5, "hive-site.xml")


def test_thresholds_name_the_source_that_won() -> None:
    values, _ = default_settings().with_layer(Layer.HIVE_SITE, {DELTA_NUM_KEY: "5", DELTA_PCT_KEY: "0.5", "other": "x"})
    values, warnings = values.with_layer(
        Layer.TABLE, {f"compactorthreshold.{DELTA_NUM_KEY}": "6", f"compactorthreshold.{ABORTED_TXN_KEY}": "7"}
    )
    found = values.thresholds()
    assert {key: (one.value, one.source) for key, one in found.items()} == {
        DELTA_NUM_KEY: (6, "table property"),
        DELTA_PCT_KEY: (0.5, "hive-site.xml"),
        ABORTED_TXN_KEY: (1000, "default"),
    }
    assert all(one.key == key for key, one in found.items())
    assert len(warnings) == 1
    values, _ = values.with_layer(Layer.COMMAND_LINE, {DELTA_NUM_KEY: "8"})
    assert values.thresholds()[DELTA_NUM_KEY].source == "--set"


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        *(("12h", 43_200_000), ("2", 7_200_000), ("90s", 90_000), ("-1", -3_600_000), ("5 ms", 5)),
        ("90m", 5_400_000),
    ],
)
def test_times_have_units(text: str, ms: int) -> None:
    settings, _ = default_settings().with_layer(Layer.COMMAND_LINE, {ABORTED_TXN_TIME_KEY: text})
    assert settings.integer(ABORTED_TXN_TIME_KEY) == ms


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (DELTA_NUM_KEY, "ten"),
        (DELTA_NUM_KEY, "1.5"),
        (DELTA_PCT_KEY, "nan"),
        (DELTA_PCT_KEY, "10%"),
        (ABORTED_TXN_TIME_KEY, "1 moon"),
    ],
)
def test_values_that_do_not_parse_are_refused(key: str, value: str) -> None:
    with pytest.raises(RefusedError, match=f"{key}={value} from hive-site.xml"):
        default_settings().with_layer(Layer.HIVE_SITE, {key: value})


def test_missing_site_files_are_no_settings(tmp_path: Path) -> None:
    assert load_settings(conf_dir=tmp_path, hadoop_dir=tmp_path) == load_settings() == default_settings()


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("metastore.compactor.delta.num.threshold", DELTA_NUM_KEY),
        ("hive.compactor.history.retention.failed", "metastore.compactor.history.retention.failed"),
        (
            "metastore.compactor.history.retention.attempted",
            "metastore.compactor.history.retention.did.not.initiate",
        ),
        ("hive.compactor.history.retention.attempted", "metastore.compactor.history.retention.did.not.initiate"),
    ],
)
def test_either_of_hives_names_is_taken(given: str, meant: str) -> None:
    settings = layered(Layer.METASTORE_SITE, {given: "7"})
    assert (settings.integer(meant), settings.source(meant)) == (7, "metastore-site.xml")


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
        (DELTA_NUM_KEY, "not of the form key=value"),
        ("=5", "not of the form key=value"),
        (f"{DELTA_NUM_KEY}=five", f"{DELTA_NUM_KEY}=five from --set: because it is not a whole number"),
        (f"{DELTA_NUM_KEY}=-1", "less than 0"),
        (f"{DELTA_NUM_KEY}=1.5", "not a whole number"),
        (f"{DELTA_PCT_KEY}=nan", "not a number"),
        ("hive.compactor.worker.timeout=1y", "not a duration"),
        ("hive.compactor.worker.timeout=-1", "less than 0"),
        ("acidlib.minor.as.major.bytes=1p", "not a size"),
        ("metastore.compactor.initiator.failed.compacts.threshold=0", "less than 1"),
    ],
)
def test_wrong_assignments_are_refused(assignment: str, message: str) -> None:
    with pytest.raises(RefusedError, match=message):
        load_settings(assignments=[assignment])


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="no such directory"):
        load_settings(conf_dir=tmp_path / "absent")
    with pytest.raises(RefusedError, match="no such file"):
        load_settings(toml=tmp_path / "absent.toml")
    broken = tmp_path / "hive-site.xml"
    broken.write_text("<configuration><property>")
    with pytest.raises(CorruptError, match=r"hive-site\.xml: because it is not XML"):
        read_site(broken)
    broken.write_bytes(b"a = \xff")
    with pytest.raises(CorruptError, match="not TOML"):
        read_toml(broken)
    broken.write_text("a = [1]")
    with pytest.raises(RefusedError, match="neither a text nor a number"):
        read_toml(broken)


def test_a_bad_value_in_a_site_file_names_its_source(tmp_path: Path) -> None:
    write_site(tmp_path / "hive-site.xml", {DELTA_NUM_KEY: "many"})
    with pytest.raises(RefusedError, match=r"=many from hive-site\.xml: because it is not a whole number"):
        load_settings(conf_dir=tmp_path)


def test_the_example_names_every_key_with_its_default(tmp_path: Path) -> None:
    assert read_toml(TOML) == {}
    active = tmp_path / "acidlib.toml"
    active.write_text(TOML.read_text().replace('#"', '"'))
    assert read_toml(active) == {key.name: key.default for key in KEYS}


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_every_setting_is_read_by_somebody_or_said_to_be_without_effect(key: Key) -> None:
    assert (f'"{key.name}"' in SOURCES) is not key.inert
