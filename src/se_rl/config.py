"""Settings: frozen dataclasses that drive the command line, YAML files and the docs alike.

A field's help text is its documentation. YAML is checked here: unknown keys and wrong
types are refused by path.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, dataclass_transform

from se_rl.bounded_reading import MOST_YAML_BYTES, plain_yaml, read_regular, shown

Settings = TypeVar("Settings")


class ConfigError(ValueError):
    """Settings that cannot be used: one line that says which key, the value seen and the fix."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def settings(cls: type[Settings]) -> type[Settings]:
    """A frozen, keyword-only dataclass that refuses unknown keys when read from YAML."""
    cls.__pydantic_config__ = {"extra": "forbid"}  # type: ignore[attr-defined]
    return dataclass(frozen=True, kw_only=True)(cls)


def option(
    default: Any,
    help: str,
    *,
    choices: tuple[str, ...] | None = None,
    metavar: str | None = None,
    also: str | None = None,
) -> Any:
    """A field with its help text, for settings classes; `also` is another name of its option."""
    about = {"help": help, "choices": choices, "metavar": metavar, "also": also}
    return field(default=default, metadata=about)


def load_yaml(kind: type[Settings], path: Path, *, follow: bool = True) -> Settings:
    """Settings from a YAML file, which somebody else may have written.

    `follow` allows the path itself to be a link; in a stranger's folder it could lead anywhere.
    """
    try:
        raw = plain_yaml(read_regular(path, most_bytes=MOST_YAML_BYTES, follow=follow))
    except OSError as error:
        raise ConfigError(
            f"config {path} cannot be read: {error.strerror}; give the path of a YAML file"
        ) from None
    except ValueError as error:
        raise ConfigError(f"config {path} is not YAML: {error}") from None
    return parse(kind, raw if raw is not None else {}, source=str(path))


def parse(kind: type[Settings], raw: Any, *, source: str = "settings") -> Settings:
    """Settings from plain data; the first thing wrong is reported with its path."""
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_python(raw)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "(top)"
        if first["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
            raise ConfigError(
                f"{source}: key {key!r} is unknown; known keys: {_known(kind, first['loc'])}"
            ) from None
        if first["type"] == "value_error":  # the settings class itself refused, in words of its own
            raise ConfigError(f"{source}: {first['ctx']['error']}") from None
        raise ConfigError(
            f"{source}: key {key!r} has value {shown(first['input'])}: {first['msg'].lower()}"
        ) from None


def to_dict(value: Any) -> dict[str, Any]:
    """The resolved settings as plain data, for JSON and YAML beside a result."""
    return asdict(value)


def dump_yaml(value: Any) -> str:
    """The resolved settings as YAML, in the order they are declared."""
    import yaml

    return yaml.safe_dump(_plain(to_dict(value)), sort_keys=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _known(kind: Any, location: tuple[int | str, ...]) -> str:
    """The keys allowed where an unknown one was found."""
    from typing import get_type_hints

    for part in location[:-1]:
        kind = get_type_hints(kind).get(str(part), kind) if is_dataclass(kind) else kind
    return ", ".join(f.name for f in fields(kind)) if is_dataclass(kind) else "none"
