"""The bank as one parquet file: a row for each training, with what all of them share beside them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from se_rl.modules.design_bank.readings import (
    DEFAULT_KIND,
    BankedDesign,
    BankHead,
    BankLine,
    BankScore,
    PlannedDesign,
)
from se_rl.modules.design_bank.words import design_words
from se_rl.modules.kinds import KINDS

if TYPE_CHECKING:
    import pyarrow as pa

BANK_FILE = Path(__file__).with_name("bank.parquet")
"""The bank of the package."""
_HEAD = b"head"
_OF_DESIGN = tuple(one.name for one in fields(PlannedDesign) if one.name != "sources")
_OF_LINE = ("rung", "work", "seed", "seconds", "reason")
_OF_SCORE = tuple(one.name for one in fields(BankScore))


@dataclass(frozen=True)
class DesignBank:
    """All designs of a bank, the default among them."""

    head: BankHead
    lines: Sequence[BankLine] = field(repr=False)

    @cached_property
    def designs(self) -> tuple[BankedDesign, ...]:
        """Every design once, with all of its trainings in the order of seeds."""
        by_design: dict[str, list[BankLine]] = {}
        for line in sorted(self.lines, key=lambda line: line.seed):
            by_design.setdefault(line.design.id, []).append(line)
        found = []
        for lines in by_design.values():
            design = lines[0].design
            sources = {**self.head.default, **design.sources}
            words = design_words(sources, self.head.modules)
            found.append(BankedDesign(design, words, tuple(lines)))
        return tuple(found)

    @cached_property
    def default(self) -> BankedDesign:
        """The design that all others are held against."""
        for one in self.designs:
            if one.design.kind == DEFAULT_KIND:
                return one
        raise ValueError("the bank has no training of the default; make it anew")

    def sources(self, one: PlannedDesign) -> dict[str, str]:
        """A design's modules that are not the default's of today, which may have changed since."""
        found = {}
        for module, text in ({**self.head.default, **one.sources}).items():
            if text != KINDS[module].default_source:
                found[module] = text
        return found

    @property
    def default_words(self) -> Mapping[str, float]:
        """What the default chose."""
        return self.default.words


def write_bank(place: Path, head: BankHead, lines: Iterable[BankLine]) -> None:
    """Store a bank as one file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [_row(line, head.modules) for line in lines]
    narrow = {"rung": pa.int8(), "seed": pa.int16(), "steps": pa.int8()}
    narrow |= dict.fromkeys(("work", "seconds", *_OF_SCORE), pa.float32())
    names = (*_OF_DESIGN, *head.modules, *_OF_LINE, *_OF_SCORE)
    schema = pa.schema([(name, narrow.get(name, pa.string())) for name in names])
    schema = schema.with_metadata({_HEAD: json.dumps(asdict(head))})
    table = pa.Table.from_pylist(rows, schema)
    pq.write_table(table, place, compression="zstd", compression_level=19)


def read_bank(place: Path) -> DesignBank:
    """The bank in a file."""
    import pyarrow.parquet as pq

    if not place.exists():
        raise ValueError(
            f"there is no design bank at {place}; make it by design_bank.py --pack FILE.jsonl"
        )
    table = pq.ParquetFile(place).read()  # read_table loads pandas
    head = json.loads(table.schema.metadata[_HEAD])
    head = BankHead(**head | {"modules": tuple(head["modules"])})
    return DesignBank(head, tuple(_lines(table, head.modules)))


@lru_cache(maxsize=1)
def load_bank() -> DesignBank:
    """The bank that comes with the package."""
    return read_bank(BANK_FILE)


def _row(line: BankLine, modules: Sequence[str]) -> Mapping[str, Any]:
    row = {name: getattr(line.design, name) for name in _OF_DESIGN}
    row |= {module: line.design.sources.get(module) for module in modules}
    row |= {name: getattr(line, name) for name in _OF_LINE}
    return row | (asdict(line.score) if line.score else dict.fromkeys(_OF_SCORE))


def _lines(table: pa.Table, modules: Sequence[str]) -> Iterable[BankLine]:
    known: dict[str, PlannedDesign] = {}
    for row in table.to_pylist():
        if row["id"] not in known:
            sources = {module: row[module] for module in modules if row[module] is not None}
            own = {name: row[name] for name in _OF_DESIGN}
            known[row["id"]] = PlannedDesign(**own, sources=sources)
        score = None
        if row["score"] is not None:
            score = BankScore(**{name: row[name] for name in _OF_SCORE})
        rest = {name: row[name] for name in _OF_LINE}
        yield BankLine(known[row["id"]], score=score, **rest)
