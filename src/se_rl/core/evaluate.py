"""`se-rl evaluate`: a saved policy on other data, beside TWAP and the foresight bound."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from se_rl.baselines import schedules
from se_rl.baselines.settings import BaselinesConfig
from se_rl.baselines.table import Fitted, fit_on_train, open_task, results_table
from se_rl.config import ConfigError, to_dict
from se_rl.core.preparation import SEAL
from se_rl.core.provenance import data_hash
from se_rl.data.catalog import DataSet
from se_rl.data.features import FeatureScales
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.worlds import Episodes
from se_rl.modules.defaults import Modules
from se_rl.records.archive import Archive
from se_rl.records.entries import key_of
from se_rl.records.run_folder import RunFolder
from se_rl.rl.policy import Neutral
from se_rl.rl.policy_file import load_policy, policy_facts, read_weights
from se_rl.rl.sandboxed_training import WEIGHT, SandboxedTrainer, TrainedDesign
from se_rl.scoring.checks import bound_checks, identity_checks, require
from se_rl.scoring.execution import Actor
from se_rl.scoring.order_scores import Score
from se_rl.scoring.play import play
from se_rl.seal import Seal

POLICY = "*.policy"
OWN_SCALES = "features are scaled by the evaluated days themselves: the data has no train days"


def evaluate_policy(
    place: Path,
    config: BaselinesConfig,
    *,
    unsafe: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Execute the configured orders with a saved policy (a file, or a folder that holds one)."""
    path = policy_path(place)
    config = replace(config, seal=config.seal or seal_of_run(path.parent))
    facts = policy_facts(path)
    with ExitStack() as stack:
        sandbox = None
        if facts.get("design"):  # opened before data is loaded
            sandbox = stack.enter_context(SandboxedTrainer(unsafe=unsafe))
        dataset, task = open_task(config, say=say)
        notes = log_opening(path.parent, dataset, config, candidate=str(facts.get("name", "")))
        fitted = fit_on_train(dataset, fit_on=config.fit_on)
        scales = fitted.scales or FeatureScales.fit(task.data)
        world = StaticWorld(
            task.data,
            horizon=task.orders.horizon,
            scales=scales,
            costs=task.costs,
        )
        say(f"executing {len(task.orders):,} orders with {path.name}")
        levels: set[str] = set()

        def open_policy(_: str, horizon: int, rows: int) -> Actor:
            actor, level = _actor(path, facts, sandbox, horizon=horizon, rows=rows)
            levels.add(level)
            return actor

        orders = Episodes(task.orders)
        record = play(world, orders, open_policy, agents=facts["shape"]["agents"]).record
        isolation = ", ".join(sorted(levels))
    twap = task.score("TWAP", schedules.twap(task.orders))
    bound = task.bound()
    scores = [twap, Score(str(facts.get("name", path.stem)), task.panel, record)]
    checks = identity_checks([*scores, bound], twap=twap, side_blind=[twap], capped=task.is_capped)
    if task.costs.fills == "price_taker":  # a limit may be filled beyond every bar's own price
        checks += bound_checks(scores, bound)
    require(checks)
    if not fitted.scales:
        notes.append(OWN_SCALES)
    fitted = Fitted(scales, None, (), tuple(notes))
    results = results_table(config, dataset, fitted, [*scores, bound], checks)
    about = {key: facts.get(key) for key in ("name", "world", "trained_on", "seed", "work")}
    return results | {"policy": about | {"file": str(path), "isolation": isolation}}


def seal_of_run(place: Path) -> str | None:
    """The seal of the run in this folder; None where it holds none."""
    folder = RunFolder(place)
    if not folder.archive.exists():
        return None
    with Archive.open(folder.archive, blobs=folder.blobs, read_only=True) as archive:
        stored = archive.find(SEAL)
    return None if stored is None else Seal(stored.get("text", "")).text


def log_opening(
    place: Path, dataset: DataSet, config: BaselinesConfig, *, candidate: str
) -> list[str]:
    """A run's policy on that run's own test days is one more opening of them, which is stored."""
    if config.split not in ("test", "all") or not RunFolder(place).archive.exists():
        return []
    with RunFolder(place) as folder, Archive.open(folder.archive, blobs=folder.blobs) as archive:
        begun = archive.find("run_started")
        own = data_hash(dataset.data)
        if begun is None or begun["data"]["sha256"] != own:
            return []
        openings = archive.open_test(
            key=key_of("evaluate", candidate, to_dict(config)), data_hash=own, candidate=candidate
        )
    return [f"these are the run's own test days: opened {openings} times by now"]


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


def _actor(
    path: Path, facts: dict[str, Any], sandbox: SandboxedTrainer | None, *, horizon: int, rows: int
) -> tuple[Actor, str]:
    """The policy in use: a design behind the lock, the default one in this process."""
    neutral = Neutral(**facts["neutral"].get("static", {}))
    if sandbox is None:
        return load_policy(path, Modules())[0].runner("static"), "not needed (default design)"
    weights = {WEIGHT + name: value.numpy() for name, value in read_weights(path)[0].items()}
    trained = TrainedDesign(
        facts["design"],
        "ok",
        None,
        "",
        0.0,
        work=facts["work"],
        shape=facts["shape"],
        action_map=facts["action_map"],
        weights=weights,
    )
    actor = sandbox.actor(trained, world="static", horizon=horizon, rows=rows, neutral=neutral)
    return actor, actor.isolation
