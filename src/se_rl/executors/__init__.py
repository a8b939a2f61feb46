"""Where trainings run: one protocol, and the locked processes of this machine behind it."""
