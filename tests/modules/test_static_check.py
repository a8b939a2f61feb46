"""The static stage: attacks stopped, ordinary modules let through, messages that can be acted on."""

from __future__ import annotations

import ast

import pytest
from attack_sources import ATTACKS
from zoo import ZOO

from se_rl.modules.allowed_names import IMPORTS, public_names
from se_rl.modules.contracts import LIMITS
from se_rl.modules.kinds import KINDS
from se_rl.modules.static_check import check_source
from se_rl.modules.static_check.syntax import ALLOWED_NODES, REFUSED_NODES

SAMPLES = [
    pytest.param(code_type, source, id=f"{code_type}-{name}")
    for code_type, modules in ZOO.items()
    for name, source in modules.items()
]
FINE = "def reward(step):\n    return step.news\n"


def message(source: str | bytes, code_type: str = "reward") -> str:
    problem = check_source(source, code_type)
    assert problem is not None and problem.stage == "static" and "\n" not in problem.message
    return problem.message


@pytest.mark.parametrize("code_type, source", SAMPLES)
def test_ordinary_modules_pass(code_type: str, source: str) -> None:
    assert check_source(source, code_type) is None


def test_the_zoo_is_large_enough() -> None:
    least = {"reward": 40, "network": 35, "communication": 10, "profiling": 10, "imagination": 10}
    assert all(len(ZOO[name]) >= count for name, count in least.items())


def test_attacks_are_stopped() -> None:
    through = [name for name, source in ATTACKS.items() if check_source(source, "reward") is None]
    assert len(ATTACKS) >= 200
    assert through == ["mutable default"], (
        "state in a default argument is for the determinism check of the next stage"
    )


def test_every_node_type_is_classified() -> None:
    """Fails when Python's syntax grows: decide then whether the new node is allowed."""
    old = {
        "AugLoad",
        "AugStore",
        "ExtSlice",
        "Index",
        "Param",
        "Suite",
        "Num",
        "Str",
        "Bytes",
        "NameConstant",
        "Ellipsis",
    }
    abstract = {kind.__name__ for kind in ast.AST.__subclasses__() if kind.__subclasses__()} | {
        "AST"
    }
    types_only = {"Expression", "Interactive", "FunctionType", "TypeIgnore", "type_ignore"}
    known = {
        name
        for name, kind in vars(ast).items()
        if isinstance(kind, type) and issubclass(kind, ast.AST)
    }
    assert known - old - abstract - types_only <= ALLOWED_NODES | set(REFUSED_NODES)
    assert not ALLOWED_NODES & set(REFUSED_NODES)


@pytest.mark.parametrize("module", sorted(IMPORTS))
def test_no_public_name_is_a_module_or_a_door(module: str) -> None:
    names = public_names(module)
    assert names and not names & {
        "save",
        "load",
        "os",
        "sys",
        "compile",
        "jit",
        "hub",
        "importlib",
        "from_file",
        "ops",
    }


@pytest.mark.parametrize(
    "source, words",
    [
        ("import os\n" + FINE, ["line 1", "import os", "use only torch"]),
        (
            "def reward(step):\n    return step.fil_price\n",
            ["line 2", "fil_price", "perhaps fill_price"],
        ),
        ("def reward(step):\n    return step['news']\n", ["line 2", "step.fill_price"]),
        ("def reward(step):\n    return alpha * step.news\n", ["line 2", "alpha is not defined"]),
        ("def reward(step, k):\n    return step.news\n", ["line 1", "must take (step)"]),
        ("def rewards(step):\n    return step.news\n", ["`reward` is missing", "def reward(step)"]),
        ("def reward(step:\n    return 1\n", ["line 1", "syntax error", "def reward(step:"]),
        (
            "def reward(step):\n    return torch.sgimoid(step.news)\n",
            ["torch.sgimoid", "perhaps sigmoid"],
        ),
        ("def reward(step):\n    return torch.rand(3)\n", ["deterministic"]),
        ("def reward(step):\n    return " + "[" * 101 + "]" * 101, ["100 open brackets"]),
        ("x = 1\n" * LIMITS.source_bytes, ["bytes", str(LIMITS.source_bytes)]),
        (b"def reward(step):\n    return '\xff'\n", ["not UTF-8"]),
        ("def reward(step):\n    return '\ud800'\n", ["not UTF-8"]),
        ("while True:\n    pass\n" + FINE, ["line 1", "top level"]),
    ],
)
def test_messages_say_where_what_and_what_instead(source: str | bytes, words: list[str]) -> None:
    said = message(source)
    assert all(word in said for word in words), said


@pytest.mark.parametrize(
    "source, code_type, word",
    [
        (
            "class Network(nn.Module):\n    def forward(self, obs):\n        return obs\n",
            "network",
            "no method __init__",
        ),
        ("class Network:\n    pass\n", "network", "no base class"),
        (
            "class Network(nn.Module):\n    def __init__(self, obs_dim):\n        super().__init__()\n",
            "network",
            "must take (self, obs_dim, history)",
        ),
        ("def profile(x):\n    return {}\n", "profiling", "must take ()"),
        ("def imagine(bars):\n    return bars\n", "imagination", "must take (bars, generator)"),
        (
            "def imagine(bars, generator):\n    return bars * torch.rand(bars.shape)\n",
            "imagination",
            "generator=generator",
        ),
        (
            "def Communication(agents, size):\n    return 1\n",
            "communication",
            "`Communication` is missing",
        ),
    ],
)
def test_entries_are_held_to_their_signatures(source: str, code_type: str, word: str) -> None:
    assert word in message(source, code_type)


def test_a_step_without_a_name_is_read_as_well() -> None:
    assert check_source("def reward(*inputs):\n    return inputs[0].news\n", "reward") is None


@pytest.mark.parametrize("name", list(KINDS))
def test_nothing_is_no_module(name: str) -> None:
    assert "is missing" in message("", name)


FINE = "\ndef reward(step):\n    return step.fill_price\n"
HOLES = {
    "code in a type annotation": "class A:\n    _evaluate = 1\n\n    def run(self):\n        return self._evaluate({}, {})\n"
    + FINE,
    "types taken apart": "import typing\n\nX = 1\n\ndef f():\n    return typing.get_args(int)\n"
    + FINE,
    "anybody called self": "def f(self):\n    self.forward = 1\n" + FINE,
    "self set anew": "class A:\n    def go(this):\n        self = nn.Linear\n        self.forward = 1\n"
    + FINE,
    "a private name nobody set": "class A:\n    def go(self):\n        return self._base\n" + FINE,
    "a type through a type": "def f():\n    return type(type(1))('A', (), {})\n" + FINE,
}


@pytest.mark.parametrize("name", HOLES)
def test_holes_that_were_found_stay_closed(name: str) -> None:
    assert check_source(FINE, "reward") is None and check_source(HOLES[name], "reward") is not None
