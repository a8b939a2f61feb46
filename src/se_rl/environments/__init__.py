"""The execution task in static, dynamic and multi-agent worlds; import registers Gymnasium ids."""

from se_rl.environments.static_env import register

register()
