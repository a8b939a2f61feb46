"""The execution tasks of markets that others defined: batched worlds, and their Gymnasium faces."""
