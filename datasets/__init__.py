"""The data sets that come with the suite, one file each; named by ``_target_`` in ``configs/dataset/``."""
