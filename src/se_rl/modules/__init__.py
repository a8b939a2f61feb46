"""The contracts of what a language model may design."""
