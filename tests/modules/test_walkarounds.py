"""Ways around the static stage: each is refused, and the layers beneath hold where it cannot tell."""

from __future__ import annotations

import re
import types
import warnings
from collections import deque
from functools import partial
from importlib import import_module

import pytest
import torch
from memory_walkarounds import MORE_WALKAROUNDS
from torch import nn
from walkaround_sources import WALKAROUNDS, _network, _reward

from se_rl.modules.allowed_names import IMPORTS, REFUSED_ATTRIBUTES, public_names
from se_rl.modules.dropout import without_dropout
from se_rl.modules.loading import load_module
from se_rl.modules.static_check import check_source

ALL_WALKAROUNDS = WALKAROUNDS | MORE_WALKAROUNDS
POWERS = (eval, exec, compile, open, getattr, setattr, delattr, globals, vars, type, __import__)
INTERPRETER = (types.ModuleType, types.FrameType, types.CodeType, types.MappingProxyType)


def test_what_the_walkarounds_are_built_from_is_harmless() -> None:
    assert check_source(_network()[1], "network") is None
    assert check_source(_reward("pass")[1], "reward") is None
    assert len(WALKAROUNDS) >= 170 and len(ALL_WALKAROUNDS) == len(WALKAROUNDS) + len(
        MORE_WALKAROUNDS
    )


@pytest.mark.parametrize("name", ALL_WALKAROUNDS)
def test_walkarounds_are_refused(name: str) -> None:
    code_type, source = ALL_WALKAROUNDS[name]
    problem = check_source(source, code_type)
    assert problem is not None and "\n" not in problem.message
    assert "syntax error" not in problem.message and "is not defined" not in problem.message


@pytest.mark.parametrize("name", ["parameters", "train", "apply", "to"])
def test_an_override_is_named(name: str) -> None:
    problem = check_source(WALKAROUNDS[f"override {name}"][1], "network")
    assert problem is not None
    assert f"Network may not replace {name} of nn.Module; leave it out" in problem.message


def test_no_chain_of_public_attributes_leads_to_the_interpreter() -> None:
    """From every allowed name and usual object, along all attributes that the check lets through."""
    queue: deque[tuple[str, object, int]] = deque()
    for module in IMPORTS:
        for name in public_names(module):
            queue.append((f"{module}.{name}", getattr(import_module(module), name, None), 0))
    usual = (torch.ones(2), nn.Linear(2, 2), nn.LSTM(2, 2), (i for i in [1]), ValueError(1))
    for thing in (*usual, torch.ones(2).numpy(), partial(print), torch.no_grad(), "", {}, print):
        queue.append((type(thing).__name__, thing, 0))
    seen: dict[int, object] = {}
    doors = []
    while queue:
        path, thing, depth = queue.popleft()
        if id(thing) in seen:
            continue
        seen[id(thing)] = thing
        if isinstance(thing, INTERPRETER) or any(thing is power for power in POWERS):
            doors.append(path)
        elif depth < 2:
            queue.extend((f"{path}.{n}", value, depth + 1) for n, value in _public(thing))
    assert len(seen) > 5000 and doors == []


def _public(thing: object) -> list[tuple[str, object]]:
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in dir(thing):
            hidden = name.startswith("_") or name in REFUSED_ATTRIBUTES
            if hidden or re.fullmatch("register_.*hook", name):
                continue
            try:
                found.append((name, getattr(thing, name)))
            except Exception:
                continue
    return found


UNBOUND = """
class Setter:
    def put(self, value):
        \"\"\"Keep a value.\"\"\"
        self.bias = value

    def hidden(self):
        return self._kept

    def keep(self):
        self._kept = 1


def reward(step):
    own = Setter()
    own.put(step)
    for kind in [Setter]:
        kind.METHOD(nn.Linear)
    return own.bias
"""


@pytest.mark.parametrize("call", ["put(nn.Linear, 1)", "hidden(nn.Linear)", "keep(nn.Linear)"])
def test_a_method_called_on_others_changes_nothing(call: str) -> None:
    """No reader can tell a class in a list from an object; the loaded method asks."""
    source = UNBOUND.replace("METHOD(nn.Linear)", call)
    assert check_source(source, "reward") is None
    with pytest.raises(TypeError, match="a method of Setter was called on type"):
        load_module(source, "reward")(1)
    assert not hasattr(nn.Linear, "bias") and not hasattr(nn.Linear, "_kept")


def test_a_method_on_its_own_object_works() -> None:
    source = UNBOUND.replace("        kind.METHOD(nn.Linear)", "        pass")
    assert load_module(source, "reward")(3) == 3


def test_print_goes_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    source = "def reward(step):\n    print(step, end='')\n    return step\n"
    assert load_module(source, "reward")(2) == 2
    assert capsys.readouterr() == ("", "")


def test_dropout_is_switched_off_and_nothing_is_drawn() -> None:
    layers = nn.ModuleList(
        [
            nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.AlphaDropout(0.5)),
            nn.TransformerEncoderLayer(8, 2, 8, batch_first=True),
            nn.Dropout1d(0.9),
        ]
    )
    layers.append(nn.GRU(8, 8, num_layers=2, dropout=0.5))
    rows = torch.ones(3, 4, 8)
    before = torch.get_rng_state()
    for layer in without_dropout(layers):
        first, second = layer(rows), layer(rows)
        same = (first, second) if torch.is_tensor(first) else (first[0], second[0])
        assert layer.training and torch.equal(*same)
    assert torch.equal(before, torch.get_rng_state())
