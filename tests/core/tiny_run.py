"""A run as small as can be that still does everything; as a process of its own: `python tiny_run.py OUT [SETTINGS [EXECUTOR]]`.

Its scores mean nothing. SETTINGS are changes as JSON; without any, designs are drawn at random and no model is needed.
Where SE_RL_ARCHIVE names a database, its archive is there.
The process prints a line for whatever is in the archive for good: what it is, which, and whether it is new.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

LLM_TESTS = Path(__file__).resolve().parents[1] / "llm"
DATA = "tiny_bars"
WORKERS = {"local": 2, "ray": 3}
SMALL: Mapping[str, Any] = {
    "data": DATA,
    "seal": "tiny",
    "arm": "random",
    "seeds": (1, 2, 3),
    "horizons": (20,),
    "dynamic_horizons": (6,),
    "work": 0.006,
    "samples": 128,
    "bank": 16,
}


def environment(home: Path) -> dict[str, str]:
    """The variables of a process that has its data under `home` and one thread; compiled code stays where it is."""
    own = {"SE_RL_HOME": str(home), "SE_RL_CACHE": str(home / "cache"), "OMP_NUM_THREADS": "1"}
    return {**os.environ, **own, "NUMBA_NUM_THREADS": "1"}


def make_data(home: Path) -> None:
    """Bars for all tiny runs with this home."""
    from se_rl.data.store import write_bars
    from se_rl.data.synthetic import SyntheticConfig, synthetic_market

    market = synthetic_market(SyntheticConfig(symbols=6, sessions=24, seed=4, bar_minutes=5))
    write_bars(market, home / "data" / f"{DATA}.parquet")


def make_model(folder: Path) -> dict[str, Any]:
    """The settings with which a causal model of random weights, written to this folder, designs and learns."""
    sys.path.append(str(LLM_TESTS))
    config = import_module("tiny_model").build_model(folder) / "config.json"
    config.write_text(
        json.dumps(json.loads(config.read_text()) | {"max_position_embeddings": 16_384})
    )
    return {"arm": "full", "llm": str(folder), "scan": False}


def tiny_config(**changes: Any) -> Any:
    """The settings: the smallest preset, made smaller, with changes."""
    from se_rl.records.settings import preset

    return preset("tiny", **{**SMALL, **changes})


def tell(kind: str, payload: Mapping[str, Any], *, stored: bool = False) -> None:
    """Print what stands in the archive."""
    which = "/".join(
        str(payload[name]) for name in ("candidate", "rung", "seed") if name in payload
    )
    print(kind, which or "-", "stored" if stored else "new", flush=True)


def main(out: str, settings: str = "{}", executor: str = "local") -> int:
    """Run, or go on with, the run in a folder; what the user could mend is one line and exit code 2."""
    from se_rl.config import ConfigError
    from se_rl.core.run import run_search

    changes = {
        name: tuple(v) if isinstance(v, list) else v for name, v in json.loads(settings).items()
    }
    try:
        run_search(
            tiny_config(**changes),
            out,
            archive=os.environ.get("SE_RL_ARCHIVE", ""),
            tell=tell,
            workers=WORKERS[executor],
            executor=executor,
        )
    except ConfigError as error:
        print(f"se-rl: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
