"""Tuning: hyper-parameters chosen on held-out training samples, with as many trials for every method.

What may go in: where values are searched, what a trial is, and the file in which all trials stand. Test data may not.
"""
