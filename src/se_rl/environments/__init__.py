"""The execution task in the static world; Gymnasium faces. Importing this room registers the environment ids."""

from se_rl.environments.static_env import register

register()
