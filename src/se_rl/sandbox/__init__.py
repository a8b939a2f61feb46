"""Locked processes for source that a language model wrote. Knows nothing of RL or language
models.
"""
