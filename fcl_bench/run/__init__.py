"""One run, from a configuration to ``result.json``: its scenario, its learning, its metrics and its record."""
