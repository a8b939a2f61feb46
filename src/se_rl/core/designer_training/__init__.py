"""How the designer learns its trade before it ships: situations of a search, and what edits gain.

Everything comes from the design bank. Gains are what its surrogate expects, so nothing is trained
here but the adapter; part of the bank is kept out, to measure by.
"""
