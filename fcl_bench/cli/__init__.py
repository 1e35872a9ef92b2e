"""The command line: verbs, one job or a sweep, what a person sees. Only this room prints or reads ``sys.argv``."""
