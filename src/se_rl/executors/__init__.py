"""Where trainings run: one protocol, the executors behind it, and the pool that uses it."""
