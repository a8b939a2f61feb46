"""The package's events in Python's own logging.

results = SERLFramework(config).run_training(tell=log_events(get_logger()))
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from se_rl.records.entries import EventListener

ROOT = "se_rl"


def get_logger(name: str = "", *, level: int = logging.INFO) -> logging.Logger:
    """The logger `se_rl`, or the one of that name below it, with a handler that writes to stderr.

    Where logging is configured already, its own handlers are used.
    """
    logger = logging.getLogger(f"{ROOT}.{name}" if name else ROOT)
    logger.setLevel(level)
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(message)s"))
        logging.getLogger(ROOT).addHandler(handler)
    return logger


def log_events(logger: logging.Logger) -> EventListener:
    """A listener for a run's `tell`: one line for each event that people want to read."""
    from se_rl.report.story import Story

    story = Story()

    def tell(kind: str, payload: Mapping[str, Any], *, stored: bool = False) -> None:
        for line in story.take(kind, payload, stored=stored):
            logger.info("%s", line)

    return tell
