"""The seal of a run: a secret from which follows whatever a design must not foresee.

The parent draws it from the operating system when a run begins, stores it in the run's archive
before anything follows from it, and publishes it with the results. Seeds of validation and test
markets, shuffles of checks, and the valid and test days of synthetic universes are a keyed hash of
it (`sealed_seed`). No worker process ever holds it, nor anything from which it follows.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from typing import Literal

from se_rl.config import ConfigError

PUBLIC = "public"
"""The seal that everybody knows: synthetic universes keep the days of their own seed."""
SEAL_BYTES = 16
"""Random bytes of a drawn seal."""
LONGEST = 200
"""Characters of a seal at most."""
Origin = Literal["drawn", "given"]


@dataclass(frozen=True)
class Seal:
    """A run's secret, and whether it was drawn for this run or given by whoever began it."""

    text: str = field(repr=False)
    origin: Origin = "given"

    def __post_init__(self) -> None:
        check_seal(self.text)
        if self.origin not in ("drawn", "given"):
            raise ConfigError(f"the seal's origin is {self.origin!r}; use 'drawn' or 'given'")

    @classmethod
    def draw(cls) -> Seal:
        """A new secret from the operating system."""
        return cls(secrets.token_hex(SEAL_BYTES), "drawn")

    @property
    def digest(self) -> str:
        """A name for the seal that does not give it away."""
        return seal_digest(self.text)


def check_seal(text: object) -> None:
    """Refuse what cannot be a seal, in one line."""
    if not isinstance(text, str) or not 1 <= len(text) <= LONGEST or not text.isprintable():
        shown = repr(text)[:40]
        raise ConfigError(f"seal is {shown}; use 1 to {LONGEST} printable characters")


def sealed_seed(seal: str, purpose: str) -> int:
    """A seed of 128 bits for one purpose: nobody can compute it, or another one, without the seal.

    The seal is the key of an HMAC-SHA256; the number is for `numpy.random.SeedSequence`.
    """
    return int.from_bytes(_keyed_hash(seal, purpose)[:16], "big")


def seal_digest(seal: str) -> str:
    """What tells seals apart without giving them away."""
    return _keyed_hash(seal, "digest").hex()[:32]


def _keyed_hash(seal: str, purpose: str) -> bytes:
    return hmac.new(seal.encode(), purpose.encode(), hashlib.sha256).digest()
