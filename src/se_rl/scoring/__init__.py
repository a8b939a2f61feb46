"""Scores with intervals: execution, standings, the ladder, the final test, comparisons."""
