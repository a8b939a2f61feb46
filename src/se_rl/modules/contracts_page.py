"""The page docs/contracts.md, made from the contracts: `python -m se_rl.modules.contracts_page > docs/contracts.md`."""

from __future__ import annotations

from se_rl.modules.contracts import CONTRACTS, LIMITS, Contract
from se_rl.modules.grammar import GRAMMAR_BYTES, GRAMMAR_TOKENS
from se_rl.modules.loading import IMPORTS, PREIMPORTED

HEAD = f"""# What a language model may write

This page is made from `se_rl.modules.contracts`, as are prompts, grammars and the validator. A design is a mapping from
module name to source text; a module that is not designed keeps its default.

- Already there in every module: {", ".join(f"`{name}`" for name in PREIMPORTED)}. Importable by exact name:
  {", ".join(f"`{name}`" for name in sorted(IMPORTS))}.
- The top level holds imports, constants, functions and classes. No attribute or name that reaches files, memory, frames,
  hooks, code in strings or the state of a library; of double-underscore names only the usual ones of a class.
- At most {LIMITS.source_bytes} bytes, {LIMITS.nesting} nested brackets, {LIMITS.parameters} parameters,
  {LIMITS.microseconds_per_row:g} microseconds a row, {LIMITS.feature_dim} features, rewards up to {LIMITS.reward_magnitude:g}.
- Small models write under a grammar whose every string is a valid module; most of its text is forced.

| module | most tokens chosen | longest text, bytes |
|---|---|---|
"""


def contracts_page() -> str:
    """The whole page as text."""
    rows = "".join(
        f"| `{name}` | {GRAMMAR_TOKENS[name]} | {GRAMMAR_BYTES[name]} |\n" for name in CONTRACTS
    )
    return HEAD + rows + "".join(_section(contract) for contract in CONTRACTS.values())


def _section(contract: Contract) -> str:
    rules = "".join(f"- {rule}\n" for rule in contract.rules)
    names = "".join(
        f"- `{name}`: {text}\n"
        for name, text in (line.split(": ", 1) for line in contract.glossary)
    )
    glossary = f"\nNames:\n\n{names}" if names else ""
    examples = "".join(f"\n```python\n{example}```\n" for example in contract.examples)
    head = f"\n## {contract.title} (`{contract.code_type}`)\n\n{contract.task}\n\n`{contract.signature}`\n\n"
    return f"{head}{rules}{glossary}{examples}"


if __name__ == "__main__":
    print(contracts_page(), end="")
