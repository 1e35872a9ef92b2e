"""What exactness is good for, after a run: to certify its record, and to unlearn some of its samples.

A record is opened, its answer is compared with another one, and what was found is written beside it. How an exact
method computes is not in here: that is the method's own ``joint``, ``evidence`` and ``unlearn``.
"""
