"""The methods that come with the suite, one file each; named by ``_target_`` in ``configs/method/``."""
