"""A Ray cluster of two nodes on this machine: the same bits, lost workers, refused nodes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import pytest

from se_rl import doctor
from se_rl.config import ConfigError
from se_rl.core.run import Run
from se_rl.executors import registry
from se_rl.executors.cluster_survey import survey
from se_rl.executors.local_sandbox import LocalSandbox
from se_rl.executors.node_report import NodeReport, this_node
from se_rl.executors.policy_scoring import PolicyScorer
from se_rl.executors.protocol import TrainingInputs
from se_rl.records.archive import Archive
from se_rl.records.entries import Evaluation
from se_rl.records.jobs import TrainingJob
from se_rl.records.run_folder import RunFolder
from se_rl.sandbox.lockdown import SandboxError, isolation_level
from se_rl_benchmarks.local_cluster import LocalCluster

sys.path.append(str(Path(__file__).resolve().parents[1] / "core"))
from tiny_run import make_data, tiny_config

HERE = NodeReport("here", "some core", 1, "strong", "", "c0de", {"torch": "1"})
SEEDS = 2
pytestmark = pytest.mark.timeout(600)  # one cluster waits for another to end


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Two nodes of one core, which this process may use."""
    if find_spec("ray") is None:
        pytest.skip('ray is not installed: pip install "se-rl[ray]"')
    if not isolation_level().enough:
        pytest.skip("no sandbox is to be had on this machine")
    with LocalCluster(nodes=2) as cluster, pytest.MonkeyPatch.context() as patch:
        for name, value in cluster.environment.items():
            patch.setenv(name, value)
        yield cluster


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Run]]:
    """Opens a tiny run on an executor."""
    monkeypatch.setenv("SE_RL_HOME", str(tmp_path))
    make_data(tmp_path)
    with ExitStack() as stack:

        def open_run(executor: str) -> Run:
            folder = tmp_path / executor.partition(":")[0]
            folder.mkdir()
            archive = stack.enter_context(Archive.open(folder / "archive.sqlite"))
            config = tiny_config(worlds="static")
            run = Run(config, RunFolder(folder), archive, workers=1, executor=executor)
            stack.callback(run.close)
            archive.add_candidate(run.search.default, {})
            return run

        yield open_run


def evaluated(run: Run, meanwhile: Callable[[], Any] = lambda: None) -> dict[int, Evaluation]:
    """The default design at the first rung by seed; `meanwhile` is done while the second trains."""
    screen = run.config.rungs.screen
    jobs = [TrainingJob(run.search.default, screen, seed) for seed in range(SEEDS)]
    found = {}
    for job, evaluation, stored in run.training_pool.evaluate(jobs):
        assert evaluation.ok and not stored
        found[job.seed] = evaluation
        if len(found) == 1:
            meanwhile()
    return found


def test_a_cluster_gives_the_same_bits_also_where_it_loses_workers(
    cluster: LocalCluster, opened: Callable[[str], Run]
) -> None:
    run = opened("ray")
    there = evaluated(run, lambda: os.kill(cluster.workers()[0], signal.SIGKILL))
    assert sorted(one.attempts for one in there.values()) == [1, 2]
    here = evaluated(opened("local"))
    for seed in range(SEEDS):
        assert replace(there[seed], seconds=0.0, attempts=1) == replace(here[seed], seconds=0.0)
    nodes = [event.payload for event in run.archive.events() if event.kind == "node"]
    assert nodes == [asdict(this_node())]  # both are this machine


def test_nodes_with_other_code_are_refused(cluster: LocalCluster) -> None:
    sandbox = LocalSandbox(TrainingInputs(None, cast(Any, None), dict))
    scorer = PolicyScorer(cast(Any, None), sandbox, dict)
    name = f"ray://127.0.0.1:{cluster.client_port}"
    said: list[str] = []
    executor: Any = registry.open_executor(name, scorer, workers=2, say=said.append)
    executor._here = replace(executor._here, code="other")
    try:
        with pytest.raises(SandboxError, match=r"no node may train: node .* is other code \("):
            while executor.capacity() == 0:
                executor.poll(1.0)
    finally:
        executor.close()
    assert len(said) == 2 and all(line.endswith("it is not used") for line in said)


def test_the_doctor_lists_the_nodes(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    here = this_node()
    nodes = survey()
    assert nodes == [here, here]
    other = replace(here, code="other")
    monkeypatch.setattr("se_rl.executors.cluster_survey.survey", lambda: [here, other])
    good, bad = doctor._cluster()
    assert good.ok and good.found.endswith(f"isolation {here.isolation}") and not good.mend
    assert not bad.ok and bad.optional and "other code" in bad.mend


def test_a_node_is_refused_without_a_lock_or_with_other_bits() -> None:
    assert HERE.refused_by(HERE, unsafe=False) == ""
    weak = replace(HERE, isolation="weak", lock_reason="no Landlock")
    assert weak.refused_by(HERE, unsafe=False) == (
        "isolation is weak, standard is needed (no Landlock)"
    )
    assert weak.refused_by(HERE, unsafe=True) == ""
    newer = replace(HERE, versions={"torch": "2"})
    assert newer.refused_by(HERE, unsafe=True) == "its torch is 2, here 1: bits would differ"


@pytest.mark.parametrize("failures", [1, 3, 4])
def test_a_busy_cluster_is_asked_again(failures: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    from se_rl.executors import ray_cluster

    asked = []

    def slow(**_: object) -> None:
        asked.append(1)
        if len(asked) <= failures:
            raise ConnectionError(f"{ray_cluster.NOT_READY}:\nTraceback\nit took too long")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", slow)
    monkeypatch.setattr(ray_cluster, "PAUSE_SECONDS", 0.0)
    if failures < ray_cluster.TRIES:
        assert ray_cluster.connect("ray://somewhere:1")
        assert len(asked) == failures + 1
        return
    with pytest.raises(ConfigError, match=r"answers at ray://somewhere:1 \(it took too long\)"):
        ray_cluster.connect("ray://somewhere:1")


def test_without_ray_the_way_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r'pip install "se-rl\[ray\]"'):
        registry.open_executor("ray", cast(Any, None), workers=1)
