"""Where the user's own data sets live."""

from __future__ import annotations

import os
from pathlib import Path


def data_home() -> Path:
    """Where imported and fetched sets live: SE_RL_HOME, else ~/.local/share/se-rl."""
    return Path(os.environ.get("SE_RL_HOME", Path.home() / ".local" / "share" / "se-rl")) / "data"
