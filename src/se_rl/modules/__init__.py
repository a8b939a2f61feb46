"""The things that a language model may write: their kinds, contracts, grammars and checks."""
