"""Where trainings run: one protocol, the locked processes of this machine behind it, and the pool that uses it."""
