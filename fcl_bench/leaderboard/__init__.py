"""Records of many runs as tables, figures and a page. It reads ``result.json`` files and nothing else: no data, no torch.

:mod:`runs` reads records, :mod:`boards` groups them, and each form that they are shown in has a module of its own.
"""
