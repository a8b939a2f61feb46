"""The executor of a Ray cluster: a worker on every core, each with a locked room on its node.

A task is a training and its scoring. What all tasks share travels once to each node. Ray is asked
for processes and nothing else: which worker does what, and what is tried again, is decided here and
in the training pool.
"""

from __future__ import annotations

import pickle
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from se_rl.executors.local_sandbox import ATTEMPTS
from se_rl.executors.node_report import NodeReport, this_node
from se_rl.executors.policy_scoring import PolicyScorer
from se_rl.executors.protocol import FinishedTask, Handle, TrainingTask
from se_rl.executors.ray_cluster import START, ClusterNode, cluster_nodes, connect
from se_rl.executors.ray_worker import RayWorker, SharedInputs, content_name, lost_training
from se_rl.records.schema import AGAIN
from se_rl.sandbox.calls import printable
from se_rl.sandbox.lockdown import SandboxError

SCAN_SECONDS = 2.0
"""How often the nodes are looked at: new ones get workers, lost workers are replaced."""
PATIENCE_SECONDS = 300.0
"""How long a cluster may be without an open worker before the run gives up."""


@dataclass(eq=False)
class _Worker:
    """A worker: what it is doing now (`answer`), and which task that is (None while it opens)."""

    actor: Any
    node: ClusterNode
    answer: Any
    report: NodeReport | None = None
    handle: Handle | None = None
    task: TrainingTask | None = None

    @property
    def is_idle(self) -> bool:
        """Whether it is open and has no task."""
        return self.report is not None and self.task is None


class RayExecutor:
    """An `Executor` with at most `workers` evaluations at once on the cluster of an executor's name."""

    def __init__(
        self,
        scorer: PolicyScorer,
        *,
        workers: int,
        cluster: str,
        say: Callable[[str], None],
    ) -> None:
        self._scorer = scorer
        self._most = workers
        self._cluster = cluster
        self._say = say
        self._handles = count()
        self._here = this_node()
        self._connected = False
        self._inputs: tuple[str, Any] | None = None  # their name, and where the cluster has them
        self._workers: list[_Worker] = []
        self._refused: dict[str, str] = {}  # by node
        self._deaths = Counter[str]()  # of workers that never opened, by node
        self._next_scan = 0.0
        self._idle_since: float | None = None  # no worker has been open since then

    def submit(self, task: TrainingTask) -> Handle:
        """Hand a task to an idle worker."""
        worker = next(worker for worker in self._workers if worker.is_idle)
        worker.handle, worker.task = next(self._handles), task
        worker.answer = worker.actor.evaluate.remote(task)
        return worker.handle

    def poll(self, timeout_seconds: float) -> list[FinishedTask]:
        """Tasks that have ended; waits up to the timeout for the first news of any worker."""
        try:
            return self._news(timeout_seconds)
        except (RayError, ConnectionError) as error:
            gone = f"the cluster does not answer any more ({_last_line(error)})"
            raise SandboxError(f"{gone}; start it again, {AGAIN}") from None

    def cancel(self, handle: Handle) -> None:
        """Kill the worker of a task; another will take its place."""
        for worker in self._workers:
            if worker.handle == handle:
                self._dismiss(worker)
                return

    def capacity(self) -> int:
        """How many workers are open: none before the first poll."""
        return sum(worker.report is not None for worker in self._workers)

    def close(self) -> None:
        """Kill all workers and leave the cluster."""
        for worker in list(self._workers):
            self._dismiss(worker)
        self._inputs = None
        self._next_scan = 0.0
        if self._connected:
            ray.shutdown()
            self._connected = False

    # workers

    def _news(self, timeout_seconds: float) -> list[FinishedTask]:
        """What has happened since the last time, or happens within the timeout."""
        self._staff()
        awaited = {worker.answer: worker for worker in self._workers if not worker.is_idle}
        if not awaited:
            time.sleep(timeout_seconds)
            return []
        ray.wait(list(awaited), timeout=timeout_seconds)
        ready, _ = ray.wait(list(awaited), num_returns=len(awaited), timeout=0)
        finished = []
        for answer in ready:
            worker = awaited[answer]
            if worker.task is None:
                self._take_on(worker)
            else:
                finished.append(self._ended(worker))
        return finished

    def _staff(self) -> None:
        """Now and then: see which nodes are there, and have a worker on each of their cores."""
        now = time.monotonic()
        if now < self._next_scan:
            return
        self._next_scan = now + SCAN_SECONDS
        self._connected |= connect(self._cluster)
        nodes = cluster_nodes()
        self._forget_lost(nodes)
        for node in self._free_cores(nodes):
            if len(self._workers) >= self._most:
                break
            self._workers.append(self._hired(node))
        if self.capacity():
            self._idle_since = None
            return
        if nodes and all(node.id in self._refused for node in nodes):
            raise SandboxError(f"no node may train: {'; '.join(self._refused.values())}")
        self._idle_since = self._idle_since or now
        if now - self._idle_since > PATIENCE_SECONDS:
            raise SandboxError(
                f"the cluster had no free core for {PATIENCE_SECONDS:.0f} s; give it nodes "
                f"(`{START}`, `ray start --address=HOST:6379`), {AGAIN}"
            )

    def _forget_lost(self, nodes: Sequence[ClusterNode]) -> None:
        """Idle workers of nodes that are gone get no task; busy ones are heard of."""
        alive = {node.id for node in nodes}
        for worker in [one for one in self._workers if one.is_idle and one.node.id not in alive]:
            self._workers.remove(worker)

    def _free_cores(self, nodes: Sequence[ClusterNode]) -> Iterator[ClusterNode]:
        """The nodes that may train, each as often as it has cores without a worker, in turns."""
        taken = Counter(worker.node.id for worker in self._workers)
        for core in range(max((node.cores for node in nodes), default=0)):
            for node in nodes:
                if node.id not in self._refused and taken[node.id] <= core < node.cores:
                    yield node

    def _hired(self, node: ClusterNode) -> _Worker:
        """A new worker on a node, which begins with opening its room."""
        if self._inputs is None:
            content = pickle.dumps(SharedInputs.of(self._scorer), protocol=5)
            self._inputs = content_name(content), ray.put(content)
        on_this_node = NodeAffinitySchedulingStrategy(node.id, soft=False)
        made = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(RayWorker)
        actor = made.options(scheduling_strategy=on_this_node).remote()
        unsafe = self._scorer.sandbox.unsafe
        opening = actor.open.remote(self._here, *self._inputs, unsafe=unsafe)
        return _Worker(actor, node, opening)

    def _dismiss(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        ray.kill(worker.actor)

    # answers

    def _take_on(self, worker: _Worker) -> None:
        """Open a new worker to tasks, unless what it says of its node forbids it."""
        node = worker.node
        try:
            report: NodeReport = ray.get(worker.answer)
        except RayError as error:
            self._dismiss(worker)
            self._deaths[node.id] += 1
            if self._deaths[node.id] >= ATTEMPTS:
                self._refuse(node, f"no worker could open there: {_last_line(error)}")
            return
        reason = report.refused_by(self._here, unsafe=self._scorer.sandbox.unsafe)
        if reason:
            self._dismiss(worker)
            self._refuse(node, reason)
            return
        self._deaths[node.id] = 0
        worker.report = report

    def _refuse(self, node: ClusterNode, reason: str) -> None:
        if node.id not in self._refused:
            self._refused[node.id] = f"node {node.host}: {reason}"
            self._say(f"{self._refused[node.id]}; it is not used")

    def _ended(self, worker: _Worker) -> FinishedTask:
        """What became of a worker's task; one that went down with its worker is lost."""
        handle, task = worker.handle, worker.task
        assert handle is not None and task is not None
        try:
            finished: FinishedTask = ray.get(worker.answer)
        except RayError as error:
            self._dismiss(worker)
            return FinishedTask(handle, lost_training(task, _last_line(error)))
        worker.handle = worker.task = None
        return replace(finished, handle=handle, node=worker.report)


def _last_line(error: Exception) -> str:
    """What an error says in the end, in one printable line."""
    return printable(str(error).strip().split("\n")[-1])
