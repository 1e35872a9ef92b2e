"""The configuration: which choices there are, how Hydra composes them, and what is said about wrong ones.

It builds what a configuration names, but knows nothing of methods, data or runs.
"""
