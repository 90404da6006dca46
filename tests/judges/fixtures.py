"""The tables that Hive wrote, and what Hive answered about them, in comparable form."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from judges import hive_text, merge

if TYPE_CHECKING:
    from judges.hive_reader import HiveReader

ROOT = Path(__file__).parents[1] / "fixtures"
# columns whose type was changed after the widest file was written
_CHANGED = {"hive4/schema_evolution": {"a": "bigint"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixture:
    """One table. ``layers``: its ``after_…`` folders; ``write_ids``: text of the valid list, or blank for all."""

    folder: Path
    generation: int
    write_ids: str
    insert_only: bool
    layers: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.folder.parent.name}/{self.folder.name}"

    def lay(self, target: Path, layer: str = "") -> Path:
        """The table laid out below ``target`` (a new folder), before or with what a compaction added."""
        return merge.overlay(target, self.folder / "before", *([self.folder / layer] if layer else []))

    def hive_rows(self) -> Counter[str]:
        """Hive's rows as lines, the same before and after any compaction."""
        exact = self.folder / "rows_exact.tsv"
        return Counter(self._lines(exact if exact.exists() else self.folder / "rows.tsv"))

    def hive_keys(self, layer: str = "") -> Counter[tuple[str, ...]] | None:
        """(write id, bucket property, row id, first column) of each row by Hive; None where it was not asked."""
        names = (f"row_ids_{layer}.tsv", f"rowids.{layer}.tsv") if layer else ("row_ids.tsv", "rowids.tsv")
        for name in names:
            if (self.folder / name).exists():
                cells = (line.split("\t") for line in self._lines(self.folder / name))
                return Counter((*c[:3], c[4]) for c in cells)
        return None

    def _lines(self, path: Path) -> list[str]:
        return path.read_text().splitlines()[1 if self.generation == 3 else 0 :]

    @property
    def style(self) -> hive_text.Style:
        if self.generation == 3:
            return hive_text.HIVE3
        return hive_text.HIVE4_EXACT if (self.folder / "rows_exact.tsv").exists() else hive_text.HIVE4

    def read(
        self, location: Path, *, generation: int | None = None, strict: bool = True
    ) -> tuple[Counter[str], Counter[tuple[str, ...]]]:
        """What a reader sees at ``location``, a copy of this table: rows and keys, printed as Hive prints them."""

        def naive(partition: Path) -> list[merge.Row]:
            return merge.read(partition, self.write_ids, generation=generation or self.generation, strict=strict)

        return self.read_by(naive, location, self.style)

    def read_by_hive(
        self, location: Path, hive: HiveReader, *, vectorized: bool
    ) -> tuple[Counter[str], Counter[tuple[str, ...]]]:
        """``read`` by a reader of Hive itself. It gives days in the proleptic Gregorian calendar, as it prints them."""
        columns = self.columns(location)

        def asked(partition: Path) -> list[merge.Row]:
            return hive.rows(partition, columns, write_ids=self.write_ids, vectorized=vectorized)

        return self.read_by(asked, location, dataclasses.replace(self.style, hybrid=False))

    def columns(self, location: Path) -> dict[str, str]:
        """Names and Hive's types of the table's columns, without partition keys."""
        found = {name: str(kind) for name, kind in merge.table_type(location).fields.items()}
        return {**found, **_CHANGED.get(self.name, {})}

    def read_by(
        self, reader: Callable[[Path], list[merge.Row]], location: Path, style: hive_text.Style
    ) -> tuple[Counter[str], Counter[tuple[str, ...]]]:
        """What another reader sees of each partition below ``location``, printed as Hive prints it."""
        texts: Counter[str] = Counter()
        keys: Counter[tuple[str, ...]] = Counter()
        fields = merge.table_type(location).fields.values()
        for partition in merge.partitions(location):
            parts = [part.partition("=")[2] for part in partition.relative_to(location).parts]
            for *key, row in reader(partition):
                cells = [hive_text.render(v, k, style) for v, k in zip(row, fields, strict=True)]
                texts["\t".join(cells + parts)] += 1
                keys[(*map(str, key), cells[0])] += 1
        return texts, keys


def fixtures(*, insert_only: bool = False) -> list[Fixture]:
    """All full-ACID tables, or all insert-only ones."""
    found = []
    for folder in sorted(ROOT.glob("hive*/*")):
        meta = json.loads((folder / "fixture.json").read_text())
        if bool(meta.get("insert_only")) == insert_only:
            found.append(
                Fixture(
                    folder=folder,
                    generation=meta["hive"],
                    write_ids=meta.get("write_ids", ""),
                    insert_only=insert_only,
                    layers=tuple(sorted(p.name for p in folder.glob("after_*"))),
                )
            )
    return found


def orc_files(pattern: str = "hive*/*/**/*") -> list[Path]:
    """ORC files of the fixtures that match a glob, but for the one that has a side file."""
    paths = (p for p in sorted(ROOT.glob(pattern)) if p.is_file())
    return [p for p in paths if p.open("rb").read(3) == b"ORC" and not p.with_name(p.name + "_flush_length").exists()]
