"""The command line without a verb: `python -m se_rl.main --dataset D --epochs N`, with `--mode
eval` to evaluate.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from se_rl.commands.parsing import Parser
from se_rl.config import ConfigError

OPTIONS = ("--dataset", "--epochs", "--mode", "--checkpoint", "--llm")
"""What such a command line may begin with; all others begin with a verb."""


def parser() -> Parser:
    """The options of a command line without a verb."""
    made = Parser(
        prog="python -m se_rl.main",
        allow_abbrev=False,
        description="Without a verb: train on a data set, or evaluate a trained policy.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "--dataset", metavar="D", default="nasdaq100", help="as --data of `run` and `evaluate`"
    )
    made.add_argument("--epochs", metavar="N", help="as --iterations of `run`")
    made.add_argument("--llm", metavar="NAME", help="as --llm of `run`")
    made.add_argument(
        "--mode", choices=("train", "eval"), default="train", help="`run`, or `evaluate`"
    )
    made.add_argument(
        "--checkpoint", metavar="P", help="with --mode eval: a policy file or the folder of a run"
    )
    return made


def as_verb(arguments: Sequence[str]) -> list[str]:
    """The same command line with a verb: `run`, or `evaluate` where the mode is eval."""
    known, others = parser().parse_known_args(arguments)
    if known.mode == "eval":
        if known.checkpoint is None:
            raise ConfigError(
                "--mode eval needs --checkpoint: a policy file or the folder of a run"
            )
        return ["evaluate", known.checkpoint, "--data", known.dataset, *others]
    words = ["run", "--data", known.dataset]
    if known.epochs:
        words += ["--iterations", known.epochs]
    if known.llm:
        words += ["--llm", known.llm]
    return words + others
