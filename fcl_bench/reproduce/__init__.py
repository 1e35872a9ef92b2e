"""To run a row again from its record, and to say whether what comes out is what the record says.

A record is read, its settings become those of this version, the run is carried out into another folder, and the two
records are compared. How runs are carried out, and how records are compared, is in :mod:`fcl_bench.run`.
"""
