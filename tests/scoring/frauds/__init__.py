"""Designs and answers that try to earn a score they do not deserve, and the campaign that plays them.

`CORPUS` holds every score fraud by name. Each says how it could once earn (`control`), so that the tests
can show that the fraud fires where the protection is missing:

batch   all days and windows in one batch: a later row shows an earlier one's future
twice   one process plays the panel a second time and remembers the first
own     its weights hold the very panel that it is played on
""        nothing ever paid it: it tries a way around the rules of the task
"""

from __future__ import annotations

from frauds.actors import ACTORS
from frauds.carriers import CARRIERS
from frauds.channels import CHANNELS
from frauds.fraud import Fraud
from frauds.ideas import IDEAS
from frauds.memories import MEMORIES
from frauds.peeks import PEEKS
from frauds.recognitions import RECOGNITIONS

ALL: tuple[Fraud, ...] = (*PEEKS, *RECOGNITIONS, *MEMORIES, *CHANNELS, *CARRIERS, *ACTORS, *IDEAS)
CORPUS: dict[str, Fraud] = {fraud.name: fraud for fraud in ALL}
if len(CORPUS) != len(ALL):
    raise ValueError("two frauds have the same name")
