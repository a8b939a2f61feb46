"""The training of a designer's adapter: gain-weighted imitation, then REINFORCE on the surrogate.

Step k draws its situations from (seed, k) alone, and the state after each step is one file, so that
a training which was interrupted goes on as if it had not been: on a CPU, bit for bit.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from se_rl.config import ConfigError
from se_rl.core.designer_training.lessons import examples, judged
from se_rl.core.designer_training.situations import BankSplit, GainJudge, Situations, split_bank
from se_rl.llm.adapter_file import NONE, AdapterFile
from se_rl.llm.adapters import LoraSettings
from se_rl.llm.backends import Proposal
from se_rl.llm.design_outcomes import DesignOutcome, advantages, batch_summary, design_scores
from se_rl.llm.local import LocalDesigner
from se_rl.llm.low_level_enhancement import LoRAConfig
from se_rl.modules.design_bank.storage import DesignBank
from se_rl.records.files import write_bytes, write_text

LABEL = "edits"
"""What a fresh adapter is called; behind it stands the number of its steps."""
LAYERS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
SAVE_EVERY = 10
"""Steps between two states on disk."""
TURNS = 5
"""Batches that may teach nothing before a training ends."""


@dataclass(frozen=True)
class DesignerPlan:
    """How an adapter is trained; the same plan on the same bank and model gives the same adapter.

    `prompts` are situations in a step, `examples` the edits drawn for each in imitation, `group`
    those that the designer writes for each in REINFORCE. `sharpness` is how much better edits count
    more, in imitation; `kl_coef` the pull towards the untouched model, in REINFORCE. `adapter` is
    the SHA-256 of one to go on from, whose shape is kept.
    """

    seed: int = 0
    imitation_steps: int = 150
    reinforce_steps: int = 120
    prompts: int = 4
    examples: int = 24
    group: int = 32
    sharpness: float = 2.0
    imitation_rate: float = 5e-4
    reinforce_rate: float = 1e-4
    kl_coef: float = 0.05
    diversity: float = 0.25
    duplicate_penalty: float = 0.5
    rank: int = 8
    alpha: int = 16
    layers: tuple[str, ...] = LAYERS
    adapter: str = NONE

    def __post_init__(self) -> None:
        for name in ("imitation_steps", "reinforce_steps", "prompts", "examples", "group", "rank"):
            least = 0 if name.endswith("steps") else 2 if name in ("examples", "group") else 1
            if getattr(self, name) < least:
                raise ConfigError(f"{name} is {getattr(self, name)}; give {least} or more")

    @property
    def steps(self) -> int:
        """Steps in all."""
        return self.imitation_steps + self.reinforce_steps

    def phase(self, step: int) -> str:
        """What a step is."""
        return "imitation" if step < self.imitation_steps else "reinforce"


@dataclass(frozen=True)
class StepRow:
    """What one step measured."""

    step: int
    phase: str
    measured: dict[str, float]


class DesignerTraining:
    """The training in a folder: its state, its steps, and what they measured."""

    def __init__(
        self,
        base: LocalDesigner,
        bank: DesignBank,
        weights: dict[str, float],
        plan: DesignerPlan,
        folder: Path,
        *,
        given: AdapterFile | None = None,
    ) -> None:
        self.base = base
        self.given = given
        self.bank = bank
        self.weights = weights
        self.plan = replace(plan, adapter=given.sha256 if given else NONE)
        self.folder = folder
        self.split: BankSplit = split_bank(bank, seed=plan.seed)
        self.judge = GainJudge(bank, self.split.learned, weights)
        self.situations = Situations(bank, self.split.learned, self.judge)
        self.rows: list[StepRow] = []
        self.designer = self._opened()

    @property
    def done(self) -> int:
        """Steps that were made."""
        return len(self.rows)

    def run(self, *, until: float, say: Callable[[str], None] = print) -> None:
        """Make the steps that are missing, as long as the clock (`time.monotonic`) allows."""
        for step in range(self.done, self.plan.steps):
            if time.monotonic() >= until:
                break
            measured = self._step(step)
            self.rows.append(StepRow(step, self.plan.phase(step), measured))
            if (step + 1) % SAVE_EVERY == 0:
                self.save()
                say(told(self.rows[-1]))
        self.save()

    def save(self) -> None:
        """Put the state on disk: all of it, or that of before."""
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(asdict(self.plan)), *(json.dumps(asdict(row)) for row in self.rows)]
        write_text(self._log, "\n".join(lines) + "\n")  # first: lines ahead of the state are cut
        if self.rows:
            write_bytes(self._state, self.designer.adapter_bytes())

    @property
    def _state(self) -> Path:
        return self.folder / "state.safetensors"

    @property
    def _log(self) -> Path:
        return self.folder / "steps.jsonl"

    def _opened(self) -> LocalDesigner:
        """The adapter to go on with, or a fresh one."""
        plan = self.plan
        if not self._state.exists() and self.given is not None:
            return self.base.with_adapter_bytes(self.given.content)
        if not self._state.exists():
            shape = LoraSettings(plan.rank, plan.alpha, plan.layers, norms=True)
            return self.base.new_adapter(LABEL, settings=shape, seed=plan.seed)
        head, *lines = self._log.read_text().splitlines()
        if json.loads(head) != json.loads(json.dumps(asdict(plan))):
            raise ConfigError(
                f"{self.folder} has a training with other settings; give those, or another --out"
            )
        designer = self.base.with_adapter_bytes(self._state.read_bytes())
        steps = int(str(designer.adapter).rpartition("@")[2]) - self._before
        self.rows = [StepRow(**json.loads(line)) for line in lines[:steps]]
        return designer

    @property
    def _before(self) -> int:
        """Steps that the given adapter has made already."""
        return self.given.head.updates if self.given else 0

    def _step(self, step: int) -> dict[str, float]:
        for turn in range(TURNS):
            rng = np.random.default_rng([self.plan.seed, 10, self._before + step, turn])
            imitates = self.plan.phase(step) == "imitation"
            measured = self._imitate(rng) if imitates else self._reinforce(rng)
            if measured:
                return measured
        raise ConfigError(
            f"step {step}: {TURNS} batches in a row taught nothing; raise group or diversity"
        )

    def _imitate(self, rng: np.random.Generator) -> dict[str, float]:
        """Good edits made likelier, one step."""
        proposals: list[Proposal] = []
        weights: list[float] = []
        for _ in range(self.plan.prompts):
            situation = self.situations.draw(rng)
            found, counted = examples(
                self.designer,
                situation,
                self.judge,
                n=self.plan.examples,
                sharpness=self.plan.sharpness,
                rng=rng,
            )
            proposals += found
            weights += counted
        if not proposals:
            return {}
        rate = self.plan.imitation_rate
        return self.designer.update(proposals, weights, learning_rate=rate, kl_coef=0.0)

    def _reinforce(self, rng: np.random.Generator) -> dict[str, float]:
        """The designer's own edits, each against its siblings, one step."""
        outcomes: list[DesignOutcome] = []
        for _ in range(self.plan.prompts):
            situation = self.situations.draw(rng)
            request = situation.task.request(constrained=True, seed=int(rng.integers(2**31)))
            proposals = self.designer.propose(request, self.plan.group)
            outcomes += judged(situation, proposals, self.judge)
        return self._learned(outcomes)

    def _learned(self, outcomes: Sequence[DesignOutcome]) -> dict[str, float]:
        config = LoRAConfig(
            diversity=self.plan.diversity, duplicate_penalty=self.plan.duplicate_penalty
        )
        each = advantages(outcomes, design_scores(outcomes, config))
        live = np.isfinite(each)
        if not live.any():
            return {}
        summary = batch_summary(outcomes, live, adapter=self.designer.adapter)
        measured = self.designer.update(
            [outcomes[int(place)].proposal for place in np.flatnonzero(live)],
            each[live].tolist(),
            learning_rate=self.plan.reinforce_rate,
            kl_coef=self.plan.kl_coef,
        )
        return {**summary, **measured}


def told(row: StepRow) -> str:
    """One line on a step."""
    names = ("mean_gain", "distinct", "log_prob", "kl", "entropy", "drift")
    shown = [f"{name} {row.measured[name]:+.3f}" for name in names if name in row.measured]
    return f"step {row.step + 1} ({row.phase}): {', '.join(shown)}"
