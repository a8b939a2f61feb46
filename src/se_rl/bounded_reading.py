"""Files that somebody else may have written: regular ones alone, of bounded size and bounded depth.

A named pipe or a device would hang or never end, a link would lead elsewhere, and nested text would
exhaust the stack; each is refused before it is read.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

DEEPEST = 64
"""Mappings and lists within each other that are read at most."""
MOST_YAML_BYTES = 128 * 1024
MOST_JSON_BYTES = 64 * 1024 * 1024
_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def read_regular(path: Path, *, most_bytes: int, follow: bool = False) -> bytes:
    """The bytes of a regular file; anything else, and a longer one, is an `OSError` that says so.

    `follow` allows the path itself to be a link, for files that the user names.
    """
    handle = os.open(path, _OPEN if follow else _OPEN | os.O_NOFOLLOW)
    with os.fdopen(handle, "rb") as stream:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        if found.st_size > most_bytes:
            raise OSError(errno.EFBIG, f"it is longer than {most_bytes} bytes", str(path))
        content = stream.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"it is longer than {most_bytes} bytes", str(path))
    return content


def plain_json(text: str | bytes, *, deepest: int = DEEPEST) -> Any:
    """Parsed JSON that is not nested too deeply; everything else is a `ValueError`."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(f"it is nested more than {deepest} deep") from None
    check_depth(value, deepest=deepest)
    return value


def plain_yaml(text: str | bytes, *, deepest: int = DEEPEST) -> Any:
    """Parsed YAML without aliases, not nested too deeply; everything else is a `ValueError`.

    A few lines of aliases can stand for gigabytes once they are copied.
    """
    import yaml

    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.events.AliasEvent):
                raise ValueError("it holds an alias, which settings do not use")
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None
    except RecursionError:
        raise ValueError(f"it is nested more than {deepest} deep") from None
    except (LookupError, AttributeError, TypeError, OverflowError) as error:  # odd tags
        raise ValueError(f"it holds a value that cannot be read ({type(error).__name__})") from None
    check_depth(value, deepest=deepest)
    return value


def check_depth(value: Any, *, deepest: int = DEEPEST) -> None:
    """Raise a `ValueError` for plain data nested more deeply."""
    level = [value]
    for _ in range(deepest):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner.extend(item.values())
            elif isinstance(item, list):
                inner.extend(item)
        if not inner:
            return
        level = inner
    raise ValueError(f"it is nested more than {deepest} deep")


def shown(value: Any, *, most: int = 200) -> str:
    """A value as a message quotes it, cut where it is long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits has no text
        return f"a {type(value).__name__} too long to show"
    return text if len(text) <= most else f"{text[:most]}..."
