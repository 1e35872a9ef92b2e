"""The Hydra configuration: one folder per group, composed by ``config.yaml``."""
