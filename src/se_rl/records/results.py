"""What a finished run found: `RunResults`, and the records that it is made of.

Field names are the keys of results.json. Numbers are in basis points where their name does not say
otherwise; one that is undefined (an interval of a single day, say) is NaN here and null in the
file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from se_rl.records.enhancement import KitUse
from se_rl.records.fraud import FraudCheck
from se_rl.records.gains import UNKNOWN, Bounds, Gain, ScoreSummary
from se_rl.records.method_rows import MethodRow, SimulatedRow
from se_rl.records.module_use import ModuleCredit, ModuleUse
from se_rl.records.order_details import OrderDetails
from se_rl.records.plain import to_plain
from se_rl.records.training_rows import WorldWeights

if TYPE_CHECKING:
    import pandas as pd

RESULTS_VERSION = 1
"""The form of results.json that this se-rl writes; a file without `schema_version` has this form
too.
"""
OURS = "SE-RL (best design)"
STRONG = "PPO strong"
NAIVE_METHOD = "PPO naive"
"""Names of the learned methods in the tables: the best design, the default one, and the one with a
naive reward.
"""
ACCEPTED = "accepted"
NO_VALID_DESIGN = "no valid design"
NO_IMPROVEMENT = "no improvement found"
PRETENDED_SEARCH = "against the surrogate, not a result"
"""How a search can end: with a design that is ahead of the default at the last rung, without any
design that could be scored, or with the default kept; or it trained nothing and asked the design
bank. The sealed days are opened for the first.
"""
TEST_DAYS = "sealed test days"
VALIDATION_DAYS = "validation days"
"""The days that a table of methods rests on."""
OWN_PROCESS = "own process"
"""Where a training ran that shared no device."""
TWAP = "TWAP"
BOUND = "foresight bound"
"""The row that knows the future: a bound, not a policy."""

FRAME_COLUMNS = (
    *("method", "PA", "PA_std", "WR", "GLR", "AFI"),
    *("over_TWAP", "over_TWAP_low", "over_TWAP_high", "score"),
)
"""What `RunResults.to_frame` has, a method a row."""


@dataclass(frozen=True)
class FinalMetrics:
    """Our design on the sealed test days, over TWAP and over the default PPO.

    Where the default was kept these are its own figures on the validation days, and gains of 0.
    `score` and `score_over_default` are gain less risk on these days and on fresh simulated orders.
    """

    PA: float = math.nan
    PA_std: float = math.nan
    WR: float = math.nan
    GLR: float = math.nan
    AFI: float = math.nan
    ci95: Bounds = UNKNOWN
    over_TWAP: Gain = field(default_factory=Gain)
    over_TWAP_specific: Gain = field(default_factory=Gain)
    over_TWAP_common: Gain = field(default_factory=Gain)
    over_default: Gain = field(default_factory=Gain)
    over_default_specific: Gain = field(default_factory=Gain)
    score: ScoreSummary = field(default_factory=ScoreSummary)
    score_over_default: ScoreSummary = field(default_factory=ScoreSummary)


@dataclass(frozen=True)
class DesignCounts:
    """How many designs were proposed, and what became of them."""

    proposed: int = 0
    valid: int = 0
    scored: int = 0
    failed: int = 0
    repeated: int = 0


@dataclass(frozen=True)
class Selection:
    """What the choice among so many designs must be held against, on the validation days of the
    search.

    `hurdle_bps` is what the best of as many worthless designs is expected to show; `spa_p_*` is the
    chance that no design beats the benchmark, corrected for having looked at all of them.
    """

    tried: int = 0
    scored: int = 0
    hurdle_bps: float = math.nan
    score_minus_hurdle_bps: float = math.nan
    spa_p_over_twap: float = math.nan
    spa_p_over_default: float = math.nan
    on: str = ""


@dataclass(frozen=True)
class FinalistRow:
    """A design of the last rung: how it stands there, and its score at every rung
    that it climbed.
    """

    candidate: str
    score: float = math.nan
    se: float = math.nan
    ci95: Bounds = UNKNOWN
    by_seed: tuple[float, ...] = ()
    by_world: Mapping[str, float] = field(default_factory=dict)
    by_part: Mapping[str, float] = field(default_factory=dict)
    rungs: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class LearningCurve:
    """The score over TWAP at each training budget, of the best design and of the default."""

    work: tuple[float, ...] = ()
    best: tuple[float, ...] = ()
    default: tuple[float, ...] = ()


@dataclass(frozen=True)
class SeedsUsed:
    """The seed of the search, and those of the trainings that the results rest on."""

    search: int = 0
    trainings: tuple[int, ...] = ()


@dataclass(frozen=True)
class SealUsed:
    """The secret that the sealed draws follow from, and whether it was drawn or given."""

    origin: str = ""
    text: str = ""


@dataclass(frozen=True)
class ModelUse:
    """Who designed, and what that took."""

    name: str = ""
    adapter: str = ""
    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float = 0.0


@dataclass(frozen=True)
class DataFacts:
    """The data behind the results."""

    name: str = ""
    synthetic: bool = False
    sha256: str = ""
    train_sha256: str = ""
    symbols: int | None = None
    first_date: int | None = None
    last_date: int | None = None
    train_days: int | None = None
    valid_days: int | None = None
    test_days: int | None = None
    orders: int | None = None

    @property
    def days(self) -> Mapping[str, int]:
        """The number of days of each split that is known."""
        known = {"train": self.train_days, "valid": self.valid_days, "test": self.test_days}
        return {split: days for split, days in known.items() if days is not None}


@dataclass(frozen=True)
class CheckRow:
    """One self-check of the table of methods."""

    name: str
    ok: bool
    detail: str = ""


@dataclass(frozen=True)
class RunTimes:
    """How long the search took."""

    minutes: float = math.nan


@dataclass(frozen=True)
class RunResults:
    """Everything that a finished run states; what is written as results.json.

    `modules` says how often each module was designed, `module_credits` what protocols and markets
    were worth. `outcome` is one of accepted, no valid design, no improvement found; `measured_on` says which
    days `baselines` and `final_metrics` rest on. `scores` has the score over TWAP of every learned
    method, `rivals` that of every rival over the default, `score_by_day` scores as the mean of as
    many numbers as there are test days: what comparisons of runs are paired by. They are empty where
    the sealed days were not opened.
    `trainings` counts them by where they ran: in a locked process of their own, or together on a
    device, by its name. `world_weights` is alpha's path in the best design's longest training.
    """

    schema_version: int = RESULTS_VERSION
    final_metrics: FinalMetrics = field(default_factory=FinalMetrics)
    best: str = ""
    baselines: Mapping[str, MethodRow] = field(default_factory=dict)
    dynamic: Mapping[str, Mapping[str, SimulatedRow]] = field(default_factory=dict)
    designs: DesignCounts = field(default_factory=DesignCounts)
    modules: Mapping[str, ModuleUse] = field(default_factory=dict)
    module_credits: tuple[ModuleCredit, ...] = ()
    stop_reason: str = ""
    outcome: str = ACCEPTED
    measured_on: str = TEST_DAYS
    test_openings: int = 0
    spa_p: float = math.nan
    selection: Selection = field(default_factory=Selection)
    finalists: tuple[FinalistRow, ...] = ()
    fraud_checks: Mapping[str, FraudCheck] = field(default_factory=dict)
    learning: LearningCurve = field(default_factory=LearningCurve)
    world_weights: WorldWeights = field(default_factory=WorldWeights)
    seeds: SeedsUsed = field(default_factory=SeedsUsed)
    seal: SealUsed = field(default_factory=SealUsed)
    isolation: str = ""
    trainings: Mapping[str, int] = field(default_factory=dict)
    llm: ModelUse = field(default_factory=ModelUse)
    kit: KitUse = field(default_factory=KitUse)
    data: DataFacts = field(default_factory=DataFacts)
    config: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    checks: tuple[CheckRow, ...] = ()
    scores: Mapping[str, ScoreSummary] = field(default_factory=dict)
    rivals: Mapping[str, ScoreSummary] = field(default_factory=dict)
    score_by_day: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    by_day: Mapping[str, tuple[int | float, ...]] = field(default_factory=dict)
    paths: Mapping[str, Mapping[str, tuple[float, ...]]] = field(default_factory=dict)
    order_details: OrderDetails = field(default_factory=OrderDetails)
    version: str = ""
    code_hash: str = ""
    times: RunTimes = field(default_factory=RunTimes)
    verdict: str = ""

    @property
    def places(self) -> str:
        """Where trainings ran, and how many, in words."""
        return ", ".join(f"{place} {count}" for place, count in sorted(self.trainings.items()))

    @property
    def is_accepted(self) -> bool:
        """Whether the search found a design that took the default's place."""
        return self.outcome == ACCEPTED

    def __getitem__(self, name: str) -> Any:
        """A part by its key, as results.json holds it: `results["final_metrics"]["PA"]`."""
        if name not in {field.name for field in fields(self)}:
            raise KeyError(name)
        return to_plain(getattr(self, name))

    def to_frame(self) -> pd.DataFrame:
        """The table of methods: one row per method, on the days that `measured_on` names, in bps."""
        import pandas as pd

        rows = []
        for name, row in self.baselines.items():
            gain = row.over_TWAP
            known = {"method": name, "PA": row.PA, "PA_std": row.PA_std, "WR": row.WR}
            known |= {"GLR": row.GLR, "AFI": row.AFI, "over_TWAP": gain.mean}
            known |= {"over_TWAP_low": gain.ci95[0], "over_TWAP_high": gain.ci95[1]}
            known |= {"score": row.score.mean if row.score else math.nan}
            rows.append(known)
        return pd.DataFrame(rows, columns=list(FRAME_COLUMNS)).set_index("method")

    def finalist(self, name: str) -> FinalistRow | None:
        """How a design stands at the last rung; None where it did not come so far."""
        return next((row for row in self.finalists if row.candidate == name), None)
