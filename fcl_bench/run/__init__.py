"""One run, from a configuration to ``result.json``: its scenario, its scores, metrics and record.

What a run does to the process that it has for itself, such as memory and versions, is here too. The learning loop is
not: :mod:`fcl_bench.learning` serves the checks of the contract as well.
"""
