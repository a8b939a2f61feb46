"""What tables of searches keep: a page, its JSON twin, and the champions with their sources."""

from __future__ import annotations

import json
import math
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from se_rl.records.files import to_json
from se_rl_benchmarks.search_page import CarriedRow, SearchRow, page, told_of

SEARCH = "search"
"""What the page of the usual searches is called."""


@dataclass(frozen=True)
class Champion:
    """A champion with its sources, as champions.jsonl keeps it."""

    found_on: str
    preset: str
    arm: str
    seed: int
    champion: str
    sources: Mapping[str, str]


class Results:
    """The page, its twin and the champions of one set; what they say of others stays.

    They are search.md, search.json and champions.jsonl, or begin with another `name`.
    """

    def __init__(
        self, out: Path, data: str, preset_name: str, *, resume: bool, name: str = SEARCH
    ) -> None:
        self.out = out
        self.twin = out / f"{name}.json"
        self.page = out / f"{name}.md"
        self.champions = out / ("champions.jsonl" if name == SEARCH else f"{name}_champions.jsonl")
        self.data = data
        self.preset = preset_name
        self.planned = 0
        self.rows: list[SearchRow] = []
        self.carried: list[CarriedRow] = []
        self._lock = threading.Lock()
        out.mkdir(parents=True, exist_ok=True)
        if not resume:
            self._forget_champions()
        known = _told(self.twin).get("sets", {}).get(data)
        if known and resume:
            if known["searches"] and known["preset"] != preset_name:
                sys.exit(
                    f"{self.twin} has searches on {data} of preset {known['preset']}, "
                    f"not {preset_name}; give --preset {known['preset']} or another --out"
                )
            self.rows = [SearchRow(**_known(told)) for told in known["searches"]]
            self.carried = [CarriedRow(**_known(told)) for told in known.get("carried", ())]

    def add(self, row: SearchRow, sources: Mapping[str, str]) -> None:
        """Keep a finished search."""
        with self._lock:
            self.rows.append(row)
            if row.champion:
                found = (self.data, self.preset, row.arm, row.seed, row.champion)
                with self.champions.open("a") as file:
                    file.write(json.dumps(asdict(Champion(*found, sources))) + "\n")
            self.write()
        print(json.dumps(asdict(row)), flush=True)

    def add_carried(self, row: CarriedRow) -> None:
        """Keep the score of a champion of another set, in place of what its search found before."""
        search = (row.found_on, row.arm, row.seed)
        with self._lock:
            others = [one for one in self.carried if (one.found_on, one.arm, one.seed) != search]
            self.carried = [*others, row]
            self.write()
        print(json.dumps(asdict(row)), flush=True)

    def keep_carried(self, champions: Sequence[Champion]) -> None:
        """Leave out searches on the sets of these champions that have none of them any more."""
        sets = {one.found_on for one in champions}
        found = {(one.found_on, one.arm, one.seed) for one in champions}
        self.carried = [
            row
            for row in self.carried
            if row.found_on not in sets or (row.found_on, row.arm, row.seed) in found
        ]

    def _forget_champions(self) -> None:
        """Leave out what earlier searches on this set found."""
        if self.champions.exists():
            lines = self.champions.read_text().splitlines(keepends=True)
            kept = [line for line in lines if json.loads(line)["found_on"] != self.data]
            self.champions.write_text("".join(kept))

    def write(self) -> None:
        """Write the page and its twin."""
        found = told_of(self.rows, self.carried, preset=self.preset, planned=self.planned)
        keep_set(self.twin, self.data, found)
        self.page.write_text(page(_told(self.twin)["sets"]))


def keep_set(path: Path, name: str, found: Mapping[str, Any]) -> None:
    """Write what was found on one set; what the file says of others, and of demos, stays."""
    told = dict(_told(path))
    told["sets"] = {**told.get("sets", {}), name: found}
    path.write_text(to_json(told) + "\n")


def champions_of(path: Path) -> list[Champion]:
    """The champions of a file; of two of the same search the later one."""
    found = {}
    for line in path.read_text().splitlines():
        one = Champion(**json.loads(line))
        found[one.found_on, one.arm, one.seed] = one
    return list(found.values())


def _told(path: Path) -> Mapping[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {}


def _known(told: Mapping[str, Any]) -> dict[str, Any]:
    """A row as it was before JSON, which has neither NaN nor tuples."""
    found = {name: math.nan if value is None else value for name, value in told.items()}
    low, high = (math.nan if bound is None else bound for bound in told["ci95"])
    return found | {"ci95": (low, high)}
