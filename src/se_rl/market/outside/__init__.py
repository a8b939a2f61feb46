"""Markets that others defined and published figures for, rebuilt from their papers' descriptions.

`queue_reactive.py` is the market of arXiv 2511.15262, `lot_markets.py` the three of arXiv
2507.06345. docs/outside.md says what they are.
"""
