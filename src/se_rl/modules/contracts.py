"""The contracts of the modules a language model may write; the numbers of a market profile and their ranges are the first.

`PROFILE_RANGES` is stated beside the participants that read it (se_rl.market.profile) and public here.
"""

from se_rl.market.profile import PROFILE_RANGES, MarketProfile

__all__ = ["PROFILE_RANGES", "MarketProfile"]
