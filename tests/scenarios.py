"""Federations in which anything may go wrong, for property tests of what the harness and the methods make of it."""

from hypothesis import strategies as st

from fcl_bench.faults import Participation

SHARE = st.sampled_from([0.0, 0.3, 0.7, 1.0])
ANY = st.builds(
    Participation,
    participation=st.sampled_from([0.2, 0.6, 1.0]),
    dropout=st.sampled_from([0.0, 0.4, 0.9]),
    arrival=st.sampled_from(["ordered", "shuffled"]),
    lost=SHARE,
    late=SHARE,
    delay=st.integers(1, 3),
    twice=SHARE,
    join_later=SHARE,
    away=SHARE,
    forget=SHARE,
)
