"""Many trainings at once on one device: worlds, rollouts and updates as tensors, nothing per step
crosses to the host."""
