"""Scores with intervals: the evaluator, comparisons between policies, and the checks that a table must pass."""
