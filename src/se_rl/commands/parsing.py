"""How verbs are declared: one-line errors, an example in every help, options made from settings
classes.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any, NoReturn

from se_rl.config import ConfigError, load_yaml, parse

COMMAND_LINE = "command line"
FAILED, MISUSED = 1, 2
"""Exit codes: the work failed, or the command was misused."""


class Parser(argparse.ArgumentParser):
    """argparse with one-line errors that say how to get help."""

    def error(self, message: str) -> NoReturn:
        """Exit with code 2 and one line."""
        self.exit(MISUSED, f"{self.prog}: {message}; see `{self.prog} --help`\n")


def verb(verbs: Any, name: str, summary: str, example: str) -> Parser:
    """A verb with its help, an example and --json."""
    parser: Parser = verbs.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print JSON for machines")
    return parser


def add_settings(parser: argparse.ArgumentParser, kind: Any) -> None:
    """One option per field of a settings class; what is not given stays with the YAML file or the
    default.
    """
    add_config(parser)
    add_options(parser, kind)


def add_config(parser: argparse.ArgumentParser) -> None:
    """The option that reads settings from a file."""
    parser.add_argument(
        "--config", type=Path, metavar="YAML", help="settings from a file; options given here win"
    )


def add_options(
    parser: Any, kind: Any, *, only: Collection[str] | None = None, default_from: str = ""
) -> None:
    """The options alone, for settings that have no file of their own.

    `only` names those that are worth an option, `default_from` says where defaults come from if
    not from the class.
    """
    for f in fields(kind):
        if only is not None and f.name not in only:
            continue
        default = None if f.default is MISSING else f.default
        names = [f.name, f.metadata["also"]] if f.metadata.get("also") else [f.name]
        if default is False:
            flag = f"--{f.name.replace('_', '-')}"
            either = argparse.BooleanOptionalAction
            parser.add_argument(flag, action=either, default=None, help=f.metadata["help"])
            continue
        parser.add_argument(
            *[f"--{name.replace('_', '-')}" for name in names],
            dest=f.name,
            type=_listed if isinstance(default, tuple) and default else None,
            choices=f.metadata["choices"],
            metavar=None if f.metadata["choices"] else f.metadata["metavar"],
            nargs="+" if default == () else None,
            help=f"{f.metadata['help']} (default: {default_from or _shown(default)})",
        )


def _listed(text: str) -> list[str]:
    """The parts of a list that is written with commas."""
    return [part.strip() for part in text.split(",")]


def _shown(default: Any) -> str:
    if isinstance(default, tuple) and default:
        return ",".join(map(str, default))
    return {None: "none", (): "all"}.get(default, str(default))


def read_settings(kind: Any, options: argparse.Namespace, *, base: Any = None) -> Any:
    """Settings from `base` (None: the defaults), or the YAML file, then the command line."""
    if options.config:
        base = load_yaml(kind, options.config)
    return given_settings(kind, options, base=base)


def given_settings(kind: Any, options: argparse.Namespace, *, base: Any = None) -> Any:
    """Settings from the command line over those of `base` (None: the defaults)."""
    given = {}
    for field in fields(kind):
        value = getattr(options, field.name, None)
        if value is not None:
            given[field.name] = value
    try:
        parsed = parse(kind, given, source=COMMAND_LINE)
        return replace(base or kind(), **{name: getattr(parsed, name) for name in given})
    except ConfigError as error:
        raise ConfigError(_as_typed(str(error), given)) from None


def _as_typed(message: str, given: Collection[str]) -> str:
    """A message that begins with a setting's name, with the option that the user typed for it."""
    message = message.removeprefix(f"{COMMAND_LINE}: ")
    found = re.match(r"(?:key ')?(\w+)'? ", message)
    if found is None or found[1] not in given:
        return message
    return f"--{found[1].replace('_', '-')} {message[found.end() :]}"


def add_unsafe(parser: argparse.ArgumentParser) -> None:
    """The option that overrides the refusal to run designed source outside the sandbox."""
    parser.add_argument(
        "--unsafe-no-sandbox",
        dest="unsafe",
        action="store_true",
        help="run designed source even without a sandbox; recorded in the results",
    )


def require_run(folder: Path) -> None:
    """Refuse a folder that holds no run."""
    from se_rl.records.run_folder import RunFolder

    if not RunFolder(folder).holds_run:
        raise ConfigError(
            f"{folder} holds no run (no archive.sqlite); give the folder of one, "
            "as made by `se-rl run --out`"
        )
