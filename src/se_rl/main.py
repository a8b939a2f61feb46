"""The command line: one command, `se-rl`, whose verbs parse, call one function and print what it
returned.

A user's mistake is one line on stderr and exit code 2. Heavy imports happen inside the verbs:
`se-rl --help` loads neither torch nor pandas.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from se_rl import __version__
from se_rl.commands import without_verb
from se_rl.commands.data import add_data
from se_rl.commands.designs import add_replay, add_score
from se_rl.commands.experiment import add_experiment
from se_rl.commands.machine import add_bench, add_doctor, add_llm, add_market
from se_rl.commands.parsing import FAILED, MISUSED, Parser
from se_rl.commands.reports import add_compare, add_report, add_show
from se_rl.commands.run import add_run
from se_rl.commands.serving import add_serve
from se_rl.commands.strangers import one_line_errors
from se_rl.commands.suite import add_suite
from se_rl.commands.tables import add_baselines, add_evaluate

INTERRUPTED = 130
MISTAKES = frozenset(("ConfigError", "DataError"))
FAILURES = frozenset(("CheckError", "SandboxError", "LlmError", "ArchiveError"))
"""Errors that are one line for the user, by name: importing them here would load what they belong
to.
"""
MOST_MESSAGE = 4000
"""Letters of a complaint, which may quote hostile text."""
VERBS = (
    add_run,
    add_show,
    add_score,
    add_replay,
    add_report,
    add_serve,
    add_compare,
    add_experiment,
    add_baselines,
    add_evaluate,
    add_suite,
    add_data,
    add_market,
    add_llm,
    add_bench,
    add_doctor,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `se-rl`; returns the exit code."""
    # Threads that spin for work starve a busy machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if words and words[0] in without_verb.OPTIONS:
            words = without_verb.as_verb(words)
        parser = build_parser()
        options, others = parser.parse_known_args(words)
        if others and not hasattr(options, "others"):
            parser.error(f"unrecognized arguments: {' '.join(others)}")
        options.others = others
        with one_line_errors(options):
            return int(options.run(options) or 0)
    except ValueError as error:
        if not _is_one_of(error, MISTAKES):
            raise
        return _complain(error, MISUSED)
    except RuntimeError as error:
        if not _is_one_of(error, FAILURES):
            raise
        return _complain(error, FAILED)
    except KeyboardInterrupt:
        return _complain(
            "interrupted; nothing was half written, run the same command again", INTERRUPTED
        )
    except BrokenPipeError:
        sys.stderr.close()
        return FAILED


def build_parser() -> Parser:
    """All verbs with their options."""
    parser = Parser(
        prog="se-rl",
        description="A self-evolving RL researcher for financial order execution.",
        epilog=without_verb.parser().format_help(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"se-rl {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)
    for add in VERBS:
        add(verbs)
    return parser


def _is_one_of(error: Exception, names: frozenset[str]) -> bool:
    """Whether an error, or what it derives from, has one of these names."""
    return any(kind.__name__ in names for kind in type(error).__mro__)


def _complain(message: object, code: int) -> int:
    from se_rl.sandbox.calls import printable

    print(f"se-rl: {printable(message, MOST_MESSAGE)}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
