"""The configuration: which choices there are, how Hydra composes them, and what is said about wrong ones."""
