"""Sentences that both the page of a run and that of the baselines warn with."""

from __future__ import annotations

SUSPECT_BPS = 5.0
"""More than this on bars is a leak or shared luck until shown otherwise."""
SUSPECT = f"More than {SUSPECT_BPS:g} bps means a leak or shared market luck until shown otherwise."
ON_SYNTHETIC = "On synthetic prices this says only whether the structure put into them was found."
