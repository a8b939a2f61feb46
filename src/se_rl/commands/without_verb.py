"""The command line without a verb: `python -m se_rl.main --dataset D --epochs N`, with `--mode
eval` to evaluate.
"""

from __future__ import annotations

from collections.abc import Sequence

from se_rl.commands.parsing import Parser
from se_rl.config import ConfigError

OPTIONS = ("--dataset", "--epochs", "--mode", "--checkpoint", "--llm")
"""What such a command line may begin with; all others begin with a verb."""


def as_verb(arguments: Sequence[str]) -> list[str]:
    """The same command line with a verb: `run`, or `evaluate` where the mode is eval."""
    parser = Parser(prog="python -m se_rl.main", allow_abbrev=False)
    parser.add_argument("--mode", choices=("train", "eval"), default="train")
    parser.add_argument("--dataset", default="nasdaq100")
    parser.add_argument("--epochs")
    parser.add_argument("--llm")
    parser.add_argument("--checkpoint")
    known, others = parser.parse_known_args(arguments)
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
