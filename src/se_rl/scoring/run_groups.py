"""Which runs of a comparison belong together: those whose settings differ by nothing but seeds.

A group is named by what differs between the runs at hand, and by nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from se_rl.config import to_dict
from se_rl.records.entries import sha256
from se_rl.records.results import RunResults
from se_rl.records.settings import PRESETS, RunConfig, preset

ARM = "arm"
NO_NAME = "none"
SHORT = 6
"""Letters of a digest that tell two sets of one name apart."""
CHANCE = frozenset(("seed", "seal"))
"""Settings that runs of one group may differ in."""
BESIDE = frozenset(("rivals",))
"""Settings that add rows to the tables and change nothing in a search."""
IN_ARM = frozenset(("arm", "hle", "lle", "imagine", "worlds"))
"""Settings that the name of an arm states."""
NAMED = frozenset(("data", "llm", "scenario", "agents", "estimator"))
"""Settings with a place of their own in a group's name."""
OF_MODEL = ("adapter", "free", "chain_of_thought")
"""Settings of the model, which play no part where none is asked."""
FITTED = frozenset(("horizons", "dynamic_horizons"))
"""Settings of a preset that a data set may shorten."""
TASK = ("data", "scenario", "agents", "worlds", *sorted(FITTED), "sizes", "profiles", "twins")
COSTS = ("half_spread_bps", "fee_bps", "max_participation", "fill_model")
SCORED_BY = frozenset((*TASK, *COSTS, "static_share", "risk", "scored_days", "train_until"))
"""Settings that change what a score is measured on."""


@dataclass(frozen=True)
class RunGroup:
    """Where a run belongs: its group's name, its data, and a digest of its test days."""

    name: str
    data: str
    days: str


@dataclass(frozen=True)
class RunGroups:
    """The group of each run, what the names state, and settings of the task that differ."""

    by: tuple[str, ...]
    groups: tuple[RunGroup, ...]
    unlike: tuple[str, ...] = ()


def run_groups(results: Sequence[RunResults]) -> RunGroups:
    """Group runs by everything that differs between them but seeds."""
    data = _data_names(results)
    facts = [_facts(run, data=name) for run, name in zip(results, data, strict=True)]
    shown = _preset_or_settings(facts)
    by = tuple(name for name in facts[0] if name in shown and _differs(facts, name)) or (ARM,)
    groups = []
    for run, own in zip(results, facts, strict=True):
        name = ", ".join(_words(label, own[label]) for label in by)
        groups.append(RunGroup(name, own["data"], days=f"{run.data.sha256} {_known_days(run)}"))
    unlike = tuple(name for name in by if name in SCORED_BY)
    worlds = {str(run.config.get("worlds", "both")) for run in results}
    return RunGroups(by, tuple(groups), unlike if len(worlds) == 1 else (*unlike, "worlds"))


def arm_of(config: Mapping[str, Any]) -> str:
    """What a run's settings leave of the whole: the name of its arm."""
    off = [name for name in ("hle", "lle") if not config[name]]
    parts = ["no-dek"] if len(off) == 2 else [f"no-{name}" for name in off]
    if config["arm"] != "full":  # the controls have no enhancement to leave out
        parts = [str(config["arm"])]
    if not config["imagine"]:
        parts.append("no-imagine")
    if config["worlds"] != "both":
        parts.append(f"{config['worlds']}-only")
    return " ".join(parts) or "full"


def _facts(run: RunResults, *, data: str) -> dict[str, str]:
    """Everything that may set a run apart, as text; what plays no part in it is "none"."""
    config = {**to_dict(RunConfig()), **run.config}
    several = config["scenario"] == "multi"
    learns = config["arm"] == "full" and config["lle"]
    facts = {
        ARM: arm_of(config),
        "data": data,
        "scenario": str(config["scenario"]),
        "agents": str(config["agents"]) if several else NO_NAME,
        "model": NO_NAME if config["arm"] in ("local", "random") else str(config["llm"]),
        "estimator": str(config["estimator"]) if learns else NO_NAME,
        "preset": _preset_of(config),
    }
    for field in fields(RunConfig):
        if field.name not in CHANCE | IN_ARM | NAMED | BESIDE:
            facts[field.name] = _text(config[field.name])
    if config["arm"] in ("local", "random"):
        facts |= dict.fromkeys(OF_MODEL, NO_NAME)
    return facts


def _known_days(run: RunResults) -> str:
    """The days that a run may see, and where they end."""
    return f"{run.data.train_sha256} {run.config.get('valid_until')}"


def _data_names(results: Sequence[RunResults]) -> list[str]:
    """The name of each run's data; sets that share a name have digests beside it.

    The later days of a synthetic set follow from a seal, and it is the same set whatever the seal.
    """
    digests = []
    for run in results:
        sealed = run.data.synthetic and run.data.train_sha256
        digests.append(run.data.train_sha256 if sealed else f"{run.data.sha256} {_known_days(run)}")
    by_name: dict[str, set[str]] = {}
    for run, digest in zip(results, digests, strict=True):
        by_name.setdefault(run.data.name, set()).add(digest)
    names = []
    for run, digest in zip(results, digests, strict=True):
        alone = len(by_name[run.data.name]) == 1
        short = sha256(digest)[:SHORT]
        names.append(run.data.name if alone else f"{run.data.name} {short}")
    return names


def _differs(facts: Sequence[Mapping[str, str]], name: str) -> bool:
    """Whether runs in which it plays a part differ in it."""
    return len({own[name] for own in facts} - {NO_NAME}) > 1


def _preset_or_settings(facts: Sequence[Mapping[str, str]]) -> frozenset[str]:
    """What may be stated: the preset's name where all have one, else its settings one by one."""
    if all(own["preset"] != NO_NAME for own in facts):
        return frozenset(facts[0]) - _preset_settings()
    return frozenset(facts[0]) - {"preset"}


def _preset_of(config: Mapping[str, Any]) -> str:
    """The preset that these settings are, whatever else was changed."""
    own = {name: _text(config[name]) for name in _preset_settings()}
    for name in PRESETS:
        if own == _settings_of(name):
            return name
    return NO_NAME


def _settings_of(name: str) -> dict[str, str]:
    known = to_dict(preset(name))
    return {setting: _text(known[setting]) for setting in _preset_settings()}


def _preset_settings() -> frozenset[str]:
    """The settings that presets set."""
    named: set[str] = set()
    for settings in PRESETS.values():
        named |= set(settings)
    return frozenset(named - FITTED)


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    return str(value)


def _words(name: str, value: str) -> str:
    """A value that speaks for itself stands alone; a number has its name beside it."""
    if value == NO_NAME:
        return f"no {name}"
    alone = name in (ARM, "data", "scenario", "model", "estimator", "preset")
    return value if alone else f"{name} {value}"
