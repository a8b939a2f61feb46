"""What a learned policy is compared with: schedules, the cross-sectional ridge, PPO, the bound.

`registry.py` lists them; CONTRIBUTING.md shows how to add one.
"""
