"""Algorithm 1: the loops that design, train, score and improve."""
