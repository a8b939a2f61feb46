"""A warm-up that leaves a thread behind, which no fork-server may have."""

from __future__ import annotations

import threading


def warm_up() -> None:
    threading.Thread(target=threading.Event().wait, daemon=True).start()
