"""Designs that take over their own process, for real trainings: the static stage is left out for them.

`torch.sys` leads to every module of the process. What they change there is theirs to change; what
leaves the process is checked by the parent.
"""

from __future__ import annotations

from frauds.fraud import Fraud, network

FORGED = "forged training"
"""The kind of a fraud that forges what its training answers."""
_MODULES = "MODULES = torch.sys.modules\n"
_AS_IT_LIKES = """
LOCKED = MODULES["se_rl.rl.locked_training"]
HONEST = LOCKED.train

def forged(*given, **named):
    made = HONEST(*given, **named)
    {lines}
    return made

LOCKED.train = forged
"""
_ANSWERS = {
    "half the work": "object.__setattr__(made, 'work', made.work / 2)",
    "no work": "object.__setattr__(made, 'work', 0.0)",
    "work not a number": "object.__setattr__(made, 'work', float('nan'))",
    "work of 5,000 digits": "object.__setattr__(made, 'work', 10**5000)",
    "an empty curve": "object.__setattr__(made, 'curve', [])",
    "a curve of 100,000 rows": "object.__setattr__(made, 'curve', list(made.curve) * 100_000)",
    "a reason of 300 KB": "object.__setattr__(made, 'reason', '\\x1b[2J<script>' * 20_000)",
    "a reason that is no text": "object.__setattr__(made, 'reason', {'a': [1]})",
    "weights not a number": "made.policy.heads.weight.data.fill_(float('nan'))",
    "weights of 400 MB": "made.policy.heads.weight = torch.nn.Parameter(torch.zeros(100_000_000))",
    "another shape": "type(made.policy).shape = property(lambda self: {'agents': 10**9})",
    "a steep action map": (
        "object.__setattr__(made, 'action_map', type(made.action_map)(1.0, 1e9, 1e9))"
    ),
    "a weight named as a path": (
        "made.policy.network.__dict__['_buffers']['../../etc/passwd'] = torch.zeros(3)"
    ),
    "no answer": "torch.os._exit(0)",
    "an answer of its own": "raise SystemExit(0)",
}
_RUNNER = """
RUNNER = MODULES["se_rl.rl.policy"].PolicyRunner

def act(self, seen):
    numpy = MODULES["numpy"]
    count = len(seen)
    answer = numpy.full(count, 0.05)
    {lines}
    return answer, numpy.zeros(count)
"""
_POLICIES = {
    "answers the batch's mean": "answer = answer * (1.0 + numpy.tanh(seen[:, 24].mean()))",
    "counts its answers": (
        "self.count = vars(self).get('count', 0) + 1\n"
        "    answer = answer * (1.0 + 0.5 * (self.count % 3))"
    ),
    "reads rows that were there before": (
        "block = [o for o in MODULES['gc'].get_objects() if type(o).__name__ == 'Block']\n"
        "    answer = answer * (1.0 + abs(numpy.tanh(block[0].obs[:, 24].sum())))"
    ),
    "not finite now and then": ("answer[seen[:, 24] > numpy.median(seen[:, 24])] = numpy.nan"),
    "leaves the room": "torch.os._exit(0)",
}


def _takeover(name: str, kind: str, head: str, lines: str = "s = so") -> Fraud:
    return Fraud(name, kind, {"network": network(lines, head=_MODULES + head)}, control="")


def _all() -> tuple[Fraud, ...]:
    found = []
    for name, lines in _ANSWERS.items():
        found.append(_takeover(f"training: {name}", FORGED, _AS_IT_LIKES.format(lines=lines)))
    for name, lines in _POLICIES.items():
        awake = "if not torch.is_grad_enabled():\n    RUNNER.act = act\ns = so"
        head = _RUNNER.format(lines=lines)
        found.append(_takeover(f"takes over: {name}", "forged answers", head, awake))
    return tuple(found)


TAKEOVERS = _all()
