"""Records of many runs as tables, one per group of comparable runs: :mod:`runs`, :mod:`boards`, :mod:`render`."""
