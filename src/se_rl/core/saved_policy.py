"""A policy file in use: the default design and rivals in this process, designs behind the lock."""

from __future__ import annotations

from pathlib import Path

from se_rl.baselines.registry import modules_of
from se_rl.config import ConfigError
from se_rl.modules.agent_interface import AgentInterface
from se_rl.modules.defaults import Modules
from se_rl.records.plain import from_plain
from se_rl.rl.policy import Neutral
from se_rl.rl.policy_file import policy_facts, read_policy, read_weights
from se_rl.rl.policy_header import interface_from
from se_rl.rl.policy_origin import PolicyOrigin
from se_rl.rl.sandboxed_training import WEIGHT, SandboxedTrainer, TrainedDesign
from se_rl.scoring.execution import Actor

POLICY = "*.policy"


def policy_path(place: Path) -> Path:
    """The policy file that a path means."""
    if place.is_file():
        return place
    found = sorted(place.glob(POLICY)) if place.is_dir() else []
    best = [path for path in found if path.stem == "best"] or found
    if not best:
        raise ConfigError(
            f"{place} is no policy and holds none; give a {POLICY} file or the folder of a run"
        )
    if len(best) > 1:
        names = ", ".join(path.name for path in best[:4])
        raise ConfigError(f"{place} holds {len(best)} policies ({names}, ...); name one of them")
    return best[0]


class SavedPolicy:
    """The policy of a file, or of the folder that holds one.

    A designed policy has a sandbox, which is opened here: before data is loaded. `isolation` says
    under which level of the lock its processes have run.
    """

    def __init__(self, place: Path, *, unsafe: bool = False) -> None:
        self.path = policy_path(place)
        self.facts = policy_facts(self.path)
        self._sandbox = SandboxedTrainer(unsafe=unsafe) if self.facts.get("design") else None
        self._levels: set[str] = set()

    @property
    def name(self) -> str:
        """The design's name, or the file's where it has none."""
        return str(self.facts.get("name", self.path.stem))

    @property
    def agents(self) -> int:
        """Agents that talk to each other in one book."""
        return int(self.facts["shape"]["agents"])

    @property
    def origin(self) -> PolicyOrigin | None:
        """What it was trained on and for; None where the file does not say."""
        told = self.facts.get("origin")
        return None if told is None else from_plain(PolicyOrigin, told)

    @property
    def interface(self) -> AgentInterface:
        """What it asks to see beside the usual observation, and what its outputs mean."""
        return interface_from(self.facts)

    @property
    def isolation(self) -> str:
        """The levels of the lock that have held the policy."""
        return ", ".join(sorted(self._levels))

    def actor(self, world: str, horizon: int, rows: int) -> Actor:
        """The policy for orders of one length in one world, in a fresh process if it has one."""
        if self._sandbox is None:
            self._levels.add("not needed (code of our own)")
            return read_policy(self.path, self._own_modules())[0].runner(world)
        weights = {}
        for name, value in read_weights(self.path)[0].items():
            weights[WEIGHT + name] = value.numpy()
        trained = TrainedDesign(
            self.facts["design"],
            "ok",
            None,
            "",
            0.0,
            work=self.facts["work"],
            shape=self.facts["shape"],
            action_map=self.facts["action_map"],
            weights=weights,
            interface=self.interface,
        )
        neutral = Neutral(**self.facts["neutral"].get(world, {}))
        actor = self._sandbox.actor(
            trained, world=world, horizon=horizon, rows=rows, neutral=neutral
        )
        self._levels.add(actor.isolation)
        return actor

    def _own_modules(self) -> Modules:
        """The default design's modules, or those of the rival that the file names."""
        if "rival" not in self.facts:
            return Modules()
        return modules_of(str(self.facts["rival"]), actions=self.facts["shape"]["actions"])

    def close(self) -> None:
        """End the sandbox, if there is one. May be called twice."""
        if self._sandbox is not None:
            self._sandbox.stop()

    def __enter__(self) -> SavedPolicy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
