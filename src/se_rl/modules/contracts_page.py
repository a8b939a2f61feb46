"""The page docs/contracts.md, made from the contracts.

Run `python -m se_rl.modules.contracts_page > docs/contracts.md`.
"""

from __future__ import annotations

from collections.abc import Iterable

from se_rl.modules.allowed_names import IMPORTS, PREIMPORTED
from se_rl.modules.contracts import LIMITS, Contract
from se_rl.modules.kinds import KINDS


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


HEAD = (
    "# What a language model may write\n"
    "\n"
    "This page is made from `se_rl.modules.contracts`, as are prompts, grammars and the validator."
    " A design is a mapping from\n"
    "module name to source text; a module that is not designed keeps its default.\n"
    "\n"
    f"- Already there in every module: {_quoted(PREIMPORTED)}. Importable by exact name:\n"
    f"  {_quoted(sorted(IMPORTS))}.\n"
    "- The top level holds imports, constants (lambdas and layers such as `nn.Tanh()` among them),"
    " functions and classes.\n"
    "  Attributes are set on `self` in methods, or on an object that the module has just made;"
    " classes derive from `nn.Module`\n"
    "  or own classes and replace no method of it but `forward`. No attribute or name that"
    " reaches files, memory, frames,\n"
    "  hooks, code in strings or the state of a library; of double-underscore names only the usual"
    " ones of a class.\n"
    f"- At most {LIMITS.source_bytes} bytes, {LIMITS.nesting} nested brackets,"
    f" {LIMITS.parameters} parameters,\n"
    f"  {LIMITS.microseconds_per_row:g} microseconds a row, {LIMITS.feature_dim} features,"
    f" rewards up to {LIMITS.reward_magnitude:g}.\n"
    "- Dropout layers made in `__init__` are allowed, and the framework sets them to 0: a policy"
    " draws nothing by itself.\n"
    "  `print` is allowed and its output goes nowhere.\n"
    "- Small models write under a grammar whose every string is a valid module;"
    " most of its text is forced.\n"
    "\n"
    "| module | most tokens chosen | longest text, bytes |\n"
    "|---|---|---|\n"
)


def contracts_page() -> str:
    """The whole page as text."""
    rows = ""
    sections = ""
    for code_type, kind in KINDS.items():
        rows += f"| `{code_type}` | {kind.most_tokens} | {kind.most_bytes} |\n"
        sections += _section(kind.contract)
    return HEAD + rows + sections


def _section(contract: Contract) -> str:
    text = f"\n## {contract.title} (`{contract.code_type}`)\n\n"
    text += f"{contract.task}\n\n`{contract.signature}`\n\n"
    for rule in contract.rules:
        text += f"- {rule}\n"
    if contract.glossary:
        text += "\nNames:\n\n"
    for line in contract.glossary:
        name, meaning = line.split(": ", 1)
        text += f"- `{name}`: {meaning}\n"
    for example in contract.examples:
        text += f"\n```python\n{example}```\n"
    return text


if __name__ == "__main__":
    print(contracts_page(), end="")
