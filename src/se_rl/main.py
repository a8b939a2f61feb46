"""The command line: one command, `se-rl`, whose verbs parse, call one function and print what it returned.

Errors of the user are one line on stderr and exit code 2. Heavy imports happen inside the verbs: `se-rl --help` loads
neither torch nor pandas.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from se_rl import __version__
from se_rl.commands.data import add_data
from se_rl.commands.machine import add_bench, add_doctor, add_llm, add_market
from se_rl.commands.parsing import FAILED, MISUSED, Parser
from se_rl.commands.runs import (
    add_compare,
    add_replay,
    add_report,
    add_run,
    add_score,
    add_show,
    seeds_spelling,
)
from se_rl.commands.tables import add_baselines, add_evaluate
from se_rl.config import ConfigError

INTERRUPTED = 130
SEEDS_OPTIONS = ("--dataset", "--epochs", "--mode", "--checkpoint", "--llm")
"""What the seeds' command line may begin with; ours begins with a verb."""
VERBS = (
    add_run,
    add_show,
    add_score,
    add_replay,
    add_report,
    add_compare,
    add_baselines,
    add_evaluate,
    add_data,
    add_market,
    add_llm,
    add_bench,
    add_doctor,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `se-rl`; returns the exit code."""
    os.environ.setdefault(
        "OMP_WAIT_POLICY", "PASSIVE"
    )  # threads that spin for work starve a busy machine
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if words and words[0] in SEEDS_OPTIONS:
            words = seeds_spelling(words)
        options = build_parser().parse_args(words)
        return int(options.run(options) or 0)
    except (ConfigError, ValueError) as error:
        if not {"ConfigError", "DataError"} & {kind.__name__ for kind in type(error).__mro__}:
            raise
        return _complain(error, MISUSED)
    except RuntimeError as error:
        if not {"CheckError", "SandboxError", "LlmError", "ArchiveError"} & {
            kind.__name__ for kind in type(error).__mro__
        }:
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
        prog="se-rl", description="A self-evolving RL researcher for financial order execution."
    )
    parser.add_argument("--version", action="version", version=f"se-rl {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)
    for add in VERBS:
        add(verbs)
    return parser


def _complain(message: object, code: int) -> int:
    print(f"se-rl: {' '.join(str(message).split())}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
