"""Full ACID tables that HiveServer2 makes: what each one is about, as data.

The word ``{t}`` in a statement is the table. Every statement of a case is one write id, but for the ALTER TABLE ones.
"""
# ruff: noqa: S608 - the statements are for a server of the test's own

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from long_runs import amount

TWIN = "twin"
"""The copy that is never compacted."""
ACID = "stored as orc tblproperties('transactional'='true')"
PLAIN = "stored as orc tblproperties('transactional'='false')"
CONVERT = "alter table {t} set tblproperties('EXTERNAL'='FALSE','transactional'='true')"


class Fate(enum.Enum):
    """What becomes of the transaction of a statement."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"
    """Open while the table is compacted and read, committed afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One statement on the table."""

    sql: str
    fate: Fate = Fate.COMMITTED

    @property
    def is_ddl(self) -> bool:
        return self.sql.startswith("alter table")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One table, how it came to be and what is done to it after it was compacted."""

    name: str
    columns: tuple[str, ...] = ("id", "val")
    """All of them, partition columns too."""
    create: str = f"create table {{t}}(id int, val string) {ACID}"
    steps: tuple[Step, ...]
    partitioned: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of Hive while the statements run."""
    copied: bool = True
    """Whether the copies get the files of one table; otherwise every copy gets every statement."""
    raw: bool = False
    """Whether files without ACID columns are left after a minor compaction: Hive's minor compactor refuses them."""
    auto: str = ""
    """What the initiator chooses for a third compacted copy; empty where there is none."""
    counted: bool = False
    """Whether COUNT(*) is asked."""
    probes: Mapping[str, str] = field(default_factory=dict)
    """Conditions that Hive may answer from statistics and indexes, with a name each."""
    afterwards: tuple[str, ...] = ()
    """What Hive writes into the table after the compaction."""
    by_hive: Mapping[str, str] = field(default_factory=dict)
    """Into which copies, and how Hive compacts them after that; over all cases every kind follows every kind.

    What Hive makes of rows depends on their ids and on the files, which are compared for every table before.
    """

    def __str__(self) -> str:
        return self.name

    @property
    def copies(self) -> tuple[str, ...]:
        """Those that are compacted: by hand to a minor compaction, as ALTER TABLE asks for, as the initiator wants."""
        return ("minor", "major", "auto") if self.auto else ("minor", "major")

    @property
    def written(self) -> tuple[str, ...]:
        """Those that Hive writes afterwards, and the twin."""
        return (*self.by_hive, TWIN)

    @property
    def every_copy(self) -> tuple[str, ...]:
        """All."""
        return (*self.copies, TWIN)


def _steps(*statements: str | Step) -> tuple[Step, ...]:
    return tuple(Step(sql=it) if isinstance(it, str) else it for it in statements)


def _aborted(sql: str) -> Step:
    return Step(sql=sql, fate=Fate.ABORTED)


def _open(sql: str) -> Step:
    return Step(sql=sql, fate=Fate.OPEN)


CRUD = Case(
    name="crud",
    steps=_steps(
        "insert into {t} values (1,'a'),(2,'b'),(3,'c'),(4,'d')",
        "insert into {t} values (5,'e'),(6,null)",
        "update {t} set val='z' where id=2",
        "delete from {t} where id=3",
    ),
    counted=True,
    probes={"lowest": "id <= 1", "highest": "id >= 6", "deleted": "id = 3", "null": "val is null"},
    afterwards=(
        "update {t} set val='later' where id in (1,2)",
        "delete from {t} where id in (4,6)",
        "insert into {t} values (3,'again'),(7,'g')",
    ),
    auto="major",
    by_hive={"minor": "minor", "major": "major"},
)

# id, q, p
_PARTS = (
    "stack(12, 1,'x',1, 2,'x',1, 3,'x',1, 4,'y y',2, 5,'y y',2, 6,'y y',2, 7,'a/b=c%d:e',3, 8,'a/b=c%d:e',3, "
    "9,'é',3, 10,null,4, 11,null,4, 12,'A',4) as (id,q,p)"
)
PARTITIONS = Case(
    name="partitions",
    columns=("id", "val", "n", "p", "q"),
    create=f"create table {{t}}(id int, val string, n double) partitioned by (p int, q string) {ACID}",
    steps=_steps(
        "insert into {t} select id, concat('v',id), id*1.5D, p, q from (select " + _PARTS + ") s",
        "insert into {t} select id+100, concat('w',id), id*2.5D, p, q from (select " + _PARTS + ") s",
        "update {t} set val='upd', n=n+100 where id%3=1",
        "delete from {t} where id in (2,105,10,11,110,111)",  # the last four are all rows of their partition
    ),
    partitioned=True,
    probes={"lowest": "id <= 1", "highest": "id >= 112", "one partition": "q = 'a/b=c%d:e'"},
)

BUCKETS = Case(
    name="buckets",
    create=f"create table {{t}}(id int, val string) clustered by (id) into 4 buckets {ACID}",
    steps=_steps(
        "insert into {t} select pos, concat('v',pos) from (select posexplode(split(space(15),' ')) as (pos,x)) s",
        "insert into {t} values (21,'a'),(22,'b'),(23,'c')",
        "update {t} set val=concat(val,'!') where id in (2,9,15,22)",
        "delete from {t} where id in (1,3,12,21)",
    ),
)

# every row of one bucket is deleted
EMPTIED_BUCKET = Case(
    name="emptied_bucket",
    create=f"create table {{t}}(id int, val string) clustered by (id) into 2 buckets {ACID}",
    steps=_steps(
        "insert into {t} select pos, concat('v',pos) from (select posexplode(split(space(9),' ')) as (pos,x)) s",
        "insert into {t} values (21,'a'),(22,'b')",
        "delete from {t} where INPUT__FILE__NAME like '%bucket_00000%'",
    ),
)

_TYPES = {
    "k": "int", "c_bool": "boolean", "c_ti": "tinyint", "c_si": "smallint", "c_i": "int", "c_bi": "bigint",
    "c_f": "float", "c_d": "double", "c_dec": "decimal(10,2)", "c_dec38": "decimal(38,18)", "c_dec0": "decimal(38,0)",
    "c_ch": "char(7)", "c_vc": "varchar(12)", "c_s": "string", "c_bin": "binary", "c_date": "date", "c_ts": "timestamp",
    "c_arr": "array<int>", "c_map": "map<string,bigint>", "c_st": "struct<a:int,b:string>",
    "c_nest": "array<struct<x:map<string,array<double>>,y:struct<z:timestamp,w:decimal(12,4)>>>",
}  # fmt: skip
_HIGHEST = {
    "c_bool": "true", "c_ti": "127Y", "c_si": "32767S", "c_i": "2147483647", "c_bi": "9223372036854775807L",
    "c_f": "cast('3.4028234663852886E38' as float)", "c_d": "1.7976931348623157E308D", "c_dec": "99999999.99BD",
    "c_dec38": "99999999999999999999.999999999999999999BD", "c_dec0": "99999999999999999999999999999999999999BD",
    "c_ch": "cast('zzzzzzz' as char(7))", "c_vc": "cast('zzzzzzzzzzzz' as varchar(12))", "c_s": "repeat('語',1500)",
    "c_date": "date'9999-12-31'", "c_ts": "timestamp'9999-12-31 23:59:59.999999999'",
}  # fmt: skip
_LOWEST = {
    "c_bool": "false", "c_ti": "cast(-128 as tinyint)", "c_si": "cast(-32768 as smallint)",
    "c_i": "cast('-2147483648' as int)", "c_bi": "cast('-9223372036854775808' as bigint)",
    "c_f": "cast('-3.4028234663852886E38' as float)", "c_d": "cast('-Infinity' as double)",
    "c_dec": "-99999999.99BD", "c_dec38": "-99999999999999999999.999999999999999999BD",
    "c_dec0": "-99999999999999999999999999999999999999BD", "c_ch": "cast('' as char(7))",
    "c_vc": "cast('' as varchar(12))", "c_s": "''", "c_date": "date'0001-01-01'",
    "c_ts": "timestamp'0001-01-01 00:00:00'",
}  # fmt: skip
_COMPLEX_HIGH = (
    "array(1,null,3), map('a',1L,'b',cast(null as bigint)), named_struct('a',7,'b','x'), "
    "array(named_struct('x',map('m',array(1.0D,2.5D)),'y',named_struct('z',timestamp'1999-12-31 23:59:59.5',"
    "'w',cast('1.2345' as decimal(12,4)))))"
)
_COMPLEX_LOW = (
    "array(0), map('',0L), named_struct('a',0,'b',''), "
    "array(named_struct('x',map('',array(0.0D)),'y',named_struct('z',timestamp'0001-01-01 00:00:00',"
    "'w',cast('0' as decimal(12,4)))))"
)


def _typed(k: int, values: Mapping[str, str], binary: str, complex_values: str) -> str:
    *plain, date, timestamp = values.values()
    return f"select {k}, {', '.join(plain)}, {binary}, {date}, {timestamp}, {complex_values}"


def _extremes(operator: str, values: Mapping[str, str]) -> str:
    return " and ".join(f"{name} {operator} {value}" for name, value in values.items() if name != "c_bool")


TYPES = Case(
    name="types",
    columns=tuple(_TYPES),
    create=f"create table {{t}}({', '.join(f'{name} {kind}' for name, kind in _TYPES.items())}) {ACID}",
    steps=_steps(
        "insert into {t} " + _typed(1, _HIGHEST, "unhex('00FF10AB')", _COMPLEX_HIGH),
        "insert into {t}(k) values (2),(4),(6)",
        "insert into {t} " + _typed(3, _LOWEST, "unhex('')", _COMPLEX_LOW),
        "insert into {t}(k,c_f,c_d,c_s,c_bin,c_arr,c_ts,c_date) select 5, cast('NaN' as float), cast('NaN' as double),"
        " 'line\\nbreak\\ttab', unhex('0A'), array_remove(array(1),1), timestamp'1582-10-04 00:00:00',"
        " date'1582-10-04'",
        "update {t} set c_s='updated', c_dec38=-0.000000000000000001BD, c_f=cast('-0.0' as float),"
        " c_ts=timestamp'1900-01-01 00:00:00.000001', c_date=date'1970-01-01' where k=4",
        "delete from {t} where k=6",
    ),
    probes={
        "all highest": _extremes(">=", _HIGHEST),
        "all lowest": _extremes("<=", _LOWEST),
        "all null": " and ".join(f"{name} is null" for name in _HIGHEST),
    },
)

ABORTED = Case(
    name="aborted",
    steps=_steps(
        "insert into {t} values (1,'a'),(2,'b'),(3,'c')",
        _aborted("update {t} set val='ABORTED' where id=1"),
        _aborted("delete from {t} where id=2"),
        "insert into {t} values (4,'d')",
        "update {t} set val='C' where id=3",
        _aborted("insert into {t} values (101,'ABORTED')"),
    ),
    copied=False,  # a metastore forgets aborted transactions that hold no lock
)

OPEN = Case(
    name="open",
    steps=_steps(
        "insert into {t} values (1,'a'),(2,'b')",
        "insert into {t} values (3,'c')",
        "delete from {t} where id=1",
        _open("insert into {t} values (9,'was open')"),
        "insert into {t} values (5,'after')",
        "update {t} set val='B' where id=2",
    ),
    auto="major",
)

ORIGINALS = Case(
    name="originals",
    columns=("id", "val", "d"),
    create=f"create table {{t}}(id int, val string, d decimal(10,2)) {PLAIN}",
    steps=_steps(
        "insert into {t} values (1,'a',1.10),(2,'b',2.20),(3,'c',3.30)",
        "insert into {t} values (4,'d',4.40),(5,'e',5.50)",
        "insert into {t} values (6,'f',6.60)",
        CONVERT,
        "update {t} set val='U' where id in (2,5)",
        "delete from {t} where id=3",
        "insert into {t} values (7,'g',7.70)",
    ),
    raw=True,
    counted=True,
    probes={"lowest": "d <= 1.10", "highest": "d >= 7.70"},
    afterwards=(
        "update {t} set val='later' where id in (1,2,7)",
        "delete from {t} where id in (4,5)",
        "insert into {t} values (8,'h',8.80)",
    ),
    by_hive={"minor": "major"},
)

BUCKETED_ORIGINALS = Case(
    name="bucketed_originals",
    create=f"create table {{t}}(id int, val string) clustered by (id) into 2 buckets {PLAIN}",
    steps=_steps(
        "insert into {t} values (1,'a'),(2,'b'),(3,'c'),(4,'d'),(5,'e')",
        "insert into {t} values (6,'f'),(7,'g'),(8,'h'),(9,'i')",
        CONVERT,
        "update {t} set val=concat(val,'-u') where id in (2,3,7,8)",
        "delete from {t} where id in (1,6)",
        "insert into {t} values (10,'j'),(11,'k')",
    ),
    raw=True,
)

EVOLUTION = Case(
    name="evolution",
    columns=("id", "a", "s", "b", "c"),
    create=f"create table {{t}}(id int, a int, s string) {ACID}",
    steps=_steps(
        "insert into {t} values (1,10,'one'),(2,2147483647,'two'),(3,30,'three')",
        "alter table {t} add columns (b double, c array<string>)",
        "insert into {t} select 4,40,'four',4.5D,array('x','y')",
        "update {t} set b=9.75 where id=2",
        "alter table {t} change column a a bigint",
        "insert into {t} select 5,5000000000L,'five',5.5D,array('z')",
        "delete from {t} where id=3",
    ),
    probes={"lowest": "a <= 10", "highest": "a >= 5000000000", "null": "b is null"},
)

EVOLVED_PARTITIONS = Case(
    name="evolved_partitions",
    columns=("id", "a", "b", "p"),
    create=f"create table {{t}}(id int, a int) partitioned by (p int) {ACID}",
    steps=_steps(
        "insert into {t} values (1,10,1),(2,20,1),(3,30,2)",
        "alter table {t} add columns (b string)",  # the partitions keep the columns that they have
        "insert into {t} values (4,40,'four',1),(5,50,'five',3)",
        "update {t} set b='upd' where id=1",
        "delete from {t} where id=2",
    ),
    partitioned=True,
)

RENAMED = Case(
    name="renamed",
    columns=("id", "label"),
    steps=_steps(
        "insert into {t} values (1,'a'),(2,'b')",
        "alter table {t} change column val label string",
        "insert into {t} values (3,'c')",
        "delete from {t} where id=1",
    ),
)

ALL_DELETED = Case(
    name="all_deleted",
    steps=_steps(
        "insert into {t} values (1,'a'),(2,'b')",
        "insert into {t} values (3,'c')",
        "delete from {t} where id>0",
    ),
    counted=True,
)

LOADED = Case(
    name="loaded",
    steps=_steps(
        "insert into {t} values (0,'zero')",
        "load data local inpath '{files}' into table {t}",
        "load data local inpath '{files}' into table {t}",
        "update {t} set val='B' where id=2",
        "delete from {t} where id=0",
    ),
    raw=True,
)

LOADED_OVER = Case(
    name="loaded_over",
    steps=_steps(
        "insert into {t} values (0,'zero')",
        "load data local inpath '{files}' overwrite into table {t}",
        "update {t} set val='B' where id=2",
        "insert into {t} values (4,'four')",
    ),
    raw=True,
)

MERGED = Case(
    name="merged",
    steps=_steps(
        "insert into {t} values (1,'a'),(2,'b'),(3,'c'),(4,'d')",
        "merge into {t} t using (select stack(4,1,2,3,9) as (id)) s on t.id=s.id when matched and t.id=1 then delete "
        "when matched then update set val='merged' when not matched then insert values (s.id,'new')",
        "merge into {t} t using (select stack(3,3,9,10) as (id)) s on t.id=s.id when matched and t.id=3 then delete "
        "when matched then update set val='twice' when not matched then insert values (s.id,'new')",
    ),
    afterwards=(
        "merge into {t} t using (select stack(3,2,4,11) as (id)) s on t.id=s.id when matched and t.id=4 then delete "
        "when matched then update set val='later' when not matched then insert values (s.id,'new')",
    ),
    by_hive={"major": "minor"},
)

# several directories of one write id: one for each branch
STATEMENTS = Case(
    name="statements",
    columns=("id", "val", "p"),
    create=f"create table {{t}}(id int, val string) partitioned by (p int) {ACID}",
    steps=_steps(
        "from (select stack(3,1,2,3) as (id)) s insert into {t} partition(p=1) select id, 'one' "
        "insert into {t} partition(p=2) select id, 'two' where id<3",
        "insert into {t} select 11,'u',1 union all select 12,'v',1 union all select 13,'w',2",
        "update {t} set val=concat(val,'-u') where id in (1,11)",
        "delete from {t} where id=2",
    ),
    partitioned=True,
)

# three writers, several stripes and row groups in each file
_WRITE = (
    "insert into {t} select id, val from (select pos + {first} as id, concat('v', pos % 1000) as val "
    "from (select posexplode(split(space({last}),' ')) as (pos,x)) s) r distribute by id % 3"
)
WRITERS = Case(
    name="writers",
    create="create table {t}(id int, val string) stored as orc tblproperties('transactional'='true',"
    "'orc.row.index.stride'='1000','orc.stripe.size'='4096','orc.rows.between.memory.checks'='1000')",
    steps=_steps(
        _WRITE.replace("{first}", "0").replace("{last}", "8999"),
        _WRITE.replace("{first}", "20000").replace("{last}", "2999"),
        "update {t} set val='upd' where id % 1000 = 7",
        "delete from {t} where id % 10 = 3 or id between 3000 and 4999",
    ),
    settings={"mapreduce.job.reduces": "3"},
    counted=True,
    probes={
        "lowest": "id <= 0",
        "highest": "id >= 22999",
        "edges": "id in (999,1000,1001,2999,3000,3002,5000,5999,6000,8999,20000)",
        "value": "val = 'v999'",
        "updated": "val = 'upd'",
        "none": "id between 9000 and 19999",
    },
)

# a base of Hive's own below the deltas; the table wants no major compaction for its share of deltas
OVERWRITTEN = Case(
    name="overwritten",
    create="create table {t}(id int, val string) stored as orc tblproperties('transactional'='true',"
    "'compactorthreshold.hive.compactor.delta.pct.threshold'='1000')",
    steps=_steps(
        "insert into {t} values (99,'gone')",
        "insert overwrite table {t} select stack(3,1,'a',2,'b',3,'c')",
        "insert into {t} values (4,'d')",
        "update {t} set val='B' where id=2",
        "delete from {t} where id=1",
    ),
    auto="minor",
)

TRUNCATED = Case(
    name="truncated",
    steps=_steps(
        "insert into {t} values (1,'a'),(2,'b')",
        "truncate table {t}",
        "insert into {t} values (3,'c'),(4,'d')",
        "delete from {t} where id=3",
    ),
)

# what each of these is about, two of the others have one each
PAIRED: tuple[Case, ...] = (LOADED_OVER, BUCKETED_ORIGINALS, RENAMED)
CASES: tuple[Case, ...] = (
    WRITERS, TYPES, PARTITIONS, BUCKETS, CRUD, ORIGINALS, EVOLUTION, MERGED, OVERWRITTEN, ABORTED, OPEN, LOADED,
    STATEMENTS, EVOLVED_PARTITIONS, EMPTIED_BUCKET, ALL_DELETED, TRUNCATED, *amount((), long=PAIRED),
)  # fmt: skip
