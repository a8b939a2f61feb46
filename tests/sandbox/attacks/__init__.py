"""The corpus: attacks on the sandbox with harmless canaries, category -> name -> (source, oracle)."""

from __future__ import annotations

from attacks import behaviour, files, inside, language, libraries, outside, resources, sharing
from attacks.form import Attacks

CORPUS: dict[str, Attacks] = {
    "reading files": files.READING,
    "environment": files.ENVIRONMENT,
    "writing files": files.WRITING,
    "network": outside.NETWORK,
    "processes": outside.PROCESSES,
    "signals": outside.SIGNALS,
    "tracing": outside.TRACING,
    "own process": outside.SELF,
    "memory": resources.MEMORY,
    "exhaustion": resources.EXHAUSTION,
    "processor": resources.CPU,
    "output": resources.OUTPUT,
    "shared memory": sharing.IPC,
    "master data": sharing.MASTER,
    "forged results": sharing.FORGING,
    "patching": inside.PATCHING,
    "hooks": inside.HOOKS,
    "walks": language.WALKS,
    "text as code": language.STRINGS,
    "imports": language.IMPORTS,
    "spelling": language.SPELLINGS,
    "parser bombs": language.BOMBS,
    "torch": libraries.TORCH,
    "numpy": libraries.NUMPY,
    "numba": libraries.NUMBA,
    "native code": libraries.NATIVE,
    "repeatability": behaviour.VARIES,
    "error text": behaviour.ERROR_TEXT,
    "policy": behaviour.POLICY,
}

BEHAVIOUR = frozenset({"memory", "processor", "output", "error text", "policy"})
"""Categories that no reader of source can tell from ordinary code: they are for the watchdog and the parent's checks."""
