"""The design bank: hundreds of designs with what their trainings came to, and a surrogate of them.

It was made by `benchmarks/design_bank.py` on synthetic days and simulated markets that anybody can
draw again: knowledge from before a run, which holds nothing of the run's own days.
"""
