"""Frauds through a real training, the policy server and `se-rl replay`, in a run of their own.

Nothing is forged from outside: the design's text is trained behind the lock, scored by the parent
and checked as a finalist is. The networks of the corpus sleep while they are trained: their gain is
0 until their weights are saved.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from frauds.campaign import in_words
from frauds.fraud import Fraud, network
from se_rl.config import to_dict
from se_rl.core.fraud import check_design
from se_rl.core.operators import hashes
from se_rl.core.run import Run
from se_rl.main import main
from se_rl.records.archive import Archive
from se_rl.records.entries import Candidate, design_id
from se_rl.records.jobs import TrainingJob
from se_rl.records.run_folder import RunFolder
from se_rl.records.settings import RunConfig

_AWAKE = "self.gain = nn.Parameter(torch.ones(1))"
_ASLEEP = "self.register_buffer('gain', torch.zeros(1)); self._register_state_dict_hook(wake)"
_WAKE = "def wake(module, state, prefix, metadata):\n    state[prefix + 'gain'] = torch.full((1,), 1000.0)\n"
"""The heads begin at hundredths: a gain of a thousand makes what they say loud."""
_KEEPS = """
if torch.is_grad_enabled() and 'carried' in vars(torch):
    with torch.no_grad():
        self.table.copy_(torch.carried.flatten()[:self.table.shape[0]])
s = self.table[torch.arange(n) % self.table.shape[0]]
"""
CARRIER = Fraud(
    "carried: train days, by way of torch",
    "reward that carries data out",
    {
        "network": network(_KEEPS, init="self.table = nn.Parameter(torch.zeros(32))"),
        "reward": "def reward(step):\n    torch.carried = step.news\n    return step.traded_share\n",
    },
)
"""A reward that keeps what it sees for the network, in the process of a real training."""
SINGLE = (
    "shift: roll",
    "batch: batch mean",
    "batch: row number",
    "only: no gradients",
    "small: a tenth",
    "memory: global",
    "past: count of calls",
    "weights hold: time of day and row",
    "odd: not a number when losing",
    "odd: its own random numbers",
)
TALKING = ("hears: neighbouring book", "hears: mean of all books")
"""Frauds of the corpus that are trained for real, of every kind that has a text."""


@dataclass(frozen=True)
class TrainedFraud:
    """What became of one fraud: its training, the run's own check, and `se-rl replay`."""

    name: str
    kind: str
    training: str
    check: str
    replay: str


def sleeping(fraud: Fraud) -> dict[str, str]:
    """The sources with a gain that is 0 until the weights are saved."""
    sources = dict(fraud.sources)
    text = sources["network"].replace(_AWAKE, _ASLEEP)
    sources["network"] = text.replace("\nclass Network", f"\n{_WAKE}\nclass Network", 1)
    return sources


@contextmanager
def open_run(place: Path, config: RunConfig) -> Iterator[Run]:
    """A run in a folder that has begun and designs nothing."""
    with ExitStack() as stack:
        folder = stack.enter_context(RunFolder(place))
        folder.check_config(to_dict(config))
        archive = stack.enter_context(Archive.open(folder.archive))
        run = Run(config, folder, archive, workers=1)
        stack.callback(run.close)
        run._start()
        yield run


def played(
    place: Path, config: RunConfig, frauds: Sequence[Fraud], *, replays: bool = True
) -> list[TrainedFraud]:
    """Train, score and check frauds in one run, then replay what was scored from its folder."""
    made = []
    with open_run(place, config) as run:
        for fraud in frauds:
            made.append((fraud, *_trained(run, fraud)))
    replayed = _replayed(place) if replays else {}
    found = []
    for fraud, design, training, check in made:
        again = replayed.get(design, "no policy to replay")
        found.append(TrainedFraud(fraud.name, fraud.kind, training, check, again))
    return found


def _trained(run: Run, fraud: Fraud) -> tuple[str, str, str]:
    """The design's id, how its training went, and what the check says."""
    sources = sleeping(fraud)
    modules = hashes(sources)
    candidate = Candidate(design_id(modules), modules, "by hand")
    run.archive.add_candidate(candidate, sources)
    job = TrainingJob(candidate, run.config.rungs.last, 0)
    [(_, evaluation, _)] = run.training_pool.evaluate([job])
    training = "scored" if evaluation.ok else evaluation.reason[:120]
    reason = check_design(run, candidate, [evaluation]).reason
    return candidate.id, training, in_words(reason)


def _replayed(place: Path) -> dict[str, str]:
    """What `se-rl replay RUN all` says about each design that was scored."""
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        main(["replay", str(place), "all", "--json"])
    answer: dict[str, Any] = json.loads(told.getvalue())
    found = {}
    for design in answer["designs"]:
        same = "" if design["equal"] else "other bits; "
        blind = "" if design["future_blind"] else "sees the future; "
        found[design["design"]] = same + blind + in_words(design["fraud"]["reason"])
    return found
