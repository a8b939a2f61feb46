"""The suite: designs trained anew on many tasks, half of which no search sees, against the default.

`tasks` says which tasks there are, `designs` how designs are named, `evaluators` who trains them,
`running` puts it together; `scoring.suite_effects` says what becomes of the scores.
"""
