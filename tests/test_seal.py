"""The seal: what follows from it, what does not give it away, and what cannot be one."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import pytest

from se_rl.config import ConfigError
from se_rl.records.settings import RunConfig
from se_rl.seal import LONGEST, Seal, seal_digest, sealed_seed


def test_a_seed_is_a_keyed_hash_of_its_purpose() -> None:
    said = hmac.new(b"secret", b"test days", hashlib.sha256).digest()
    assert sealed_seed("secret", "test days") == int.from_bytes(said[:16], "big")
    seeds = {sealed_seed(seal, use) for seal in ("a", "b") for use in ("x", "y")}
    assert len(seeds) == 4 and max(seeds) > 2**100


def test_a_drawn_seal_is_a_new_secret_each_time() -> None:
    one, two = Seal.draw(), Seal.draw()
    assert one.text != two.text and one.origin == two.origin == "drawn"
    assert len(bytes.fromhex(one.text)) >= 16, "128 bits at least"


def test_neither_a_seals_digest_nor_its_repr_gives_it_away() -> None:
    seal = Seal.draw()
    assert seal.text not in repr(seal) and seal.text not in seal.digest
    assert seal.digest == seal_digest(seal.text) != Seal.draw().digest


@pytest.mark.parametrize("text", ["", "x" * (LONGEST + 1), "two\nlines", "\x1b[2J", 7, None, b"x"])
def test_what_cannot_be_a_seal_is_refused_in_one_line(text: Any) -> None:
    with pytest.raises(ConfigError, match="use 1 to 200 printable characters") as told:
        Seal(text)
    assert "\n" not in str(told.value) and len(str(told.value)) < 120
    if text is not None:
        with pytest.raises(ConfigError, match="printable characters"):
            RunConfig(seal=text)


def test_a_seals_origin_is_checked() -> None:
    with pytest.raises(ConfigError, match="origin"):
        Seal("x", "guessed")  # type: ignore[arg-type]
