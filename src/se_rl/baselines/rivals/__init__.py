"""The learners that the field names, each from its paper: double DQN, OPD, HALOP and MacMic.

`docs/rivals.md` says what each one is and what was decided where its paper leaves things open.
"""
