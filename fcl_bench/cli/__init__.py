"""The command line: verbs, one run or a sweep, and what a person sees of them. No other package imports it."""
