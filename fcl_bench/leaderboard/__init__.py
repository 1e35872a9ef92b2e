"""Records of many runs as tables, figures and a page: from ``result.json`` files alone, without data or torch.

:mod:`runs` reads records, :mod:`boards` groups them, and each form that they are shown in has a module of its own.
"""
