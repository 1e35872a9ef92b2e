"""The command line: verbs, one run or a sweep, and what a person sees of them. Nothing below this room knows of it."""
