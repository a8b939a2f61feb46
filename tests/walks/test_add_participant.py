"""Adding a market participant touches three files: the steps of CONTRIBUTING.md, done on a copy of the package."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

import se_rl
from se_rl.market.participants import FIRST_AGENT
from se_rl.market.simulation import Markets

NUMBERS = """\
    contrarian_rate: float = _number(0.0, 0.0, 2.0, "looks of contrarian traders per unit")
    contrarian_threshold: float = _number(
        2.0, 0.0, 20.0, "ticks the mid must stand away from the public value"
    )
"""
BLOCK = """\
# Contrarian traders.
CONTRARIAN = _accounts.take()
CONTRARIAN_STREAM = _streams.take()
CONTRARIAN_BELOW = _event("contrarian", lambda p, pool: p.contrarian_rate)
CONTRARIAN_THRESHOLD = _parameter(lambda p: p.contrarian_threshold * FIXED)

"""
TURN = """
    elif r < t[CONTRARIAN_BELOW]:
        contrarian_looks(book, sim, b, t)
"""
BEHAVIOUR = '''\
def contrarian_looks(book: Book, sim: Sim, b: int, t: Array) -> None:
    """A contrarian trader goes against the mid where it has left the public value."""
    size = t[SIZES + draw(sim, b, CONTRARIAN_STREAM) % DRAWS]
    gap = mid_x2(book, b, sim.state[b, LAST_MID]) * FIXED // 2 - sim.state[b, VALUE]
    if abs(gap) > t[CONTRARIAN_THRESHOLD]:
        sim.state[b, MESSAGES] += 1
        market_order(book, sim, b, SELL if gap > 0 else BUY, size, CONTRARIAN)


'''
NAMES = (
    "    CONTRARIAN,\n    CONTRARIAN_BELOW,\n    CONTRARIAN_STREAM,\n    CONTRARIAN_THRESHOLD,\n"
)

SCRIPT = """
import hashlib, json
from se_rl.market import participants as at
from se_rl.market.price_levels import CASH
from se_rl.market.profile import MarketProfile
from se_rl.market.simulation import Markets

def trade(profile):
    markets = Markets(8, profile, warm_up_bars=5, parallel=False)
    bars = markets.run(20)[0]
    digest = hashlib.sha256(b"".join(values.tobytes() for values in bars.values())).hexdigest()
    moved = bool(markets.books.book.owners[:, at.CONTRARIAN, CASH].any())
    balanced = not markets.books.book.owners.sum(axis=1).any()
    return {"digest": digest, "moved": moved, "balanced": balanced, "agent": at.FIRST_AGENT}

asleep, awake = trade(MarketProfile()), trade(MarketProfile(contrarian_rate=1.0))
print(json.dumps([asleep, awake]))
"""


def put(file: Path, text: str, *, after: str = "", before: str = "") -> None:
    """Insert text beside a place that occurs once."""
    source = file.read_text()
    assert source.count(after + before) == 1, (file.name, after + before)
    file.write_text(source.replace(after + before, after + text + before))


def test_a_new_participant_needs_three_files(tmp_path: Path) -> None:
    package = Path(se_rl.__file__).parent
    copy = tmp_path / "se_rl"
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    market = copy / "market"
    put(market / "profile.py", NUMBERS, before="    collar: float")
    put(market / "participants.py", BLOCK, before="# Executing agents come after all others")
    traders = market / "traders.py"
    put(traders, NAMES, after="    CLOCK,\n")
    put(traders, TURN.lstrip("\n"), after="        pressure_moves(sim, b, t)\n")
    put(traders, BEHAVIOUR, before="def news_arrives(")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    asleep, awake = json.loads(done.stdout)
    assert asleep["agent"] == awake["agent"] == FIRST_AGENT + 1
    # nobody comes: the market of the package as it stands, bit for bit
    bars = Markets(8, warm_up_bars=5, parallel=False).run(20)[0]
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(v).tobytes() for v in bars.values()))
    assert asleep["digest"] == digest.hexdigest() and not asleep["moved"]
    # it comes: it trades, and money and shares are neither made nor lost
    assert awake["digest"] != asleep["digest"] and awake["moved"] and awake["balanced"]
