"""Networks, rollouts, PPO and the one trainer: how a design becomes a policy."""
