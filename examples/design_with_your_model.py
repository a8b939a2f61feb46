"""Any object with `generate(prompt)` designs: here one that always answers with the same reward.

Put the call of your own model into `Client.generate`. What it writes is checked, and runs in the
sandbox alone (Linux).

python examples/design_with_your_model.py
"""

from __future__ import annotations

from se_rl import LLMComponentGenerator

ANSWER = """Trade early, and let costs count:

```python
def reward(step):
    gain = step.traded_share * (step.fill_price - step.benchmark_price) / step.benchmark_price
    return 10000.0 * gain - 0.01 * step.inventory_left
```
"""


class Client:
    """Your access to a model."""

    def generate(self, prompt: str) -> str:
        """The model's answer, as text."""
        print(f"asked in {len(prompt):,} letters")
        return ANSWER


def main() -> None:
    """Ask for a reward, and print the module that came out."""
    designer = LLMComponentGenerator(Client(), candidates=1)
    print(designer.generate_reward_function("Prefer to be done early."))


if __name__ == "__main__":
    main()
