"""A run as small as can be that still does everything, in a process of its own: `python tiny_run.py OUT [--model FOLDER]`.

Its scores mean nothing. With a model's folder that model designs and learns, without one designs are drawn at random.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LLM_TESTS = Path(__file__).resolve().parents[1] / "llm"
DATA = "tiny_bars"


def environment(home: Path) -> dict[str, str]:
    """The variables of a process that keeps its data under `home` and one thread to itself; caches stay where they are."""
    own = {"SE_RL_HOME": str(home), "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "NUMBA_NUM_THREADS": "1"}
    return {**os.environ, **own}


def make_data(home: Path) -> None:
    """Bars for all tiny runs under this home."""
    from se_rl.data.store import write_bars
    from se_rl.data.synthetic import SyntheticConfig, synthetic_market

    market = synthetic_market(SyntheticConfig(symbols=6, sessions=24, seed=4))
    write_bars(market, home / "data" / f"{DATA}.parquet")


def make_model(folder: Path) -> Path:
    """A causal model of random weights that can read our prompts."""
    sys.path.append(str(LLM_TESTS))
    from tiny_model import build_model  # type: ignore[import-not-found]

    config = build_model(folder) / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"max_position_embeddings": 16_384}))
    return folder


def tiny_config(model: str | Path = "", **changes: Any) -> Any:
    """The settings: the smallest preset, made smaller; designs are random ones where there is no model."""
    from se_rl.core.settings import preset

    small: Mapping[str, Any] = {"horizon": 20, "dynamic_horizon": 6, "work": 0.006, "samples": 128, "bank": 16}
    who = {"llm": str(model)} if model else {"arm": "random"}
    return preset("tiny", **{"data": DATA, "seeds": (1, 2, 3), **small, **who, **changes})


def main(out: str, _: str = "", model: str = "") -> None:
    """Run, or go on with, the run in a folder."""
    from se_rl.core.run import run_search

    run_search(tiny_config(model), out, workers=2)


if __name__ == "__main__":
    main(*sys.argv[1:])
