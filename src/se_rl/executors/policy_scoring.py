"""What a trained policy scores: in the main process, or where it was trained if that is elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from se_rl.executors.local_sandbox import LocalSandbox
from se_rl.executors.protocol import ScoredPolicy
from se_rl.records.rungs import Rung
from se_rl.rl.policy import ActionMap, Neutral
from se_rl.rl.sandboxed_training import TrainedDesign
from se_rl.rl.written_policy import PolicyError, WrittenPolicy, written_policy
from se_rl.sandbox.lockdown import SandboxError
from se_rl.sandbox.policy_server import WaitAllowance
from se_rl.scoring.play import Open, OwnRows
from se_rl.scoring.score import Array
from se_rl.scoring.validation import Validation


class PolicyScorer:
    """Plays trained policies on validation, behind the lock of a sandbox where they need one.

    `neutral` says what an output of 0 means in each world.
    """

    def __init__(
        self,
        validation: Validation,
        sandbox: LocalSandbox,
        neutral: Callable[[], Mapping[str, Neutral]],
    ) -> None:
        self.validation = validation
        self.sandbox = sandbox
        self.neutral = neutral

    def score(self, rung: Rung, trained: TrainedDesign) -> ScoredPolicy:
        """The scores of a policy at a rung; SandboxError where the sandbox is to blame."""
        started = time.monotonic()
        arrays: Mapping[str, Array] = {}
        reason = ""
        try:
            arrays = self.sandbox.with_retries(
                lambda: self.validation.score(rung, self.opened(trained))
            )
        except SandboxError as error:
            if not isinstance(error, PolicyError) and not self.sandbox.is_alive():
                raise
            # every time, in a sandbox that is well: the policy's own fault
            reason = f"its policy failed in use: {error}"
        return ScoredPolicy(arrays, reason, time.monotonic() - started)

    def opened(self, trained: TrainedDesign) -> Open:
        """A way to open a trained policy for a world: behind the lock, unless the grammar wrote it."""
        policy = written_policy(trained)
        if policy is None:
            return self.locked(trained)
        neutral = self.neutral()
        action_map = ActionMap(**trained.action_map or {})
        return OwnRows(
            lambda world, horizon, rows: WrittenPolicy(
                policy, action_map, world=world, neutral=neutral.get(world, Neutral())
            )
        )

    def locked(self, trained: TrainedDesign) -> Open:
        """A way to open a trained policy behind the lock; all that it opens shares one allowance of
        time."""
        neutral = self.neutral()
        allowance = WaitAllowance()
        return lambda world, horizon, rows: self.sandbox.trainer.actor(
            trained,
            world=world,
            horizon=horizon,
            rows=rows,
            neutral=neutral.get(world, Neutral()),
            allowance=allowance,
        )
