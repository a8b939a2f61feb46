"""The verbs of the command line, grouped by what they are about: each parses, calls one function
and prints the result.
"""
