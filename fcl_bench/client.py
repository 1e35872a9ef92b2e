"""A client as a function of a method sees it: its samples of the present task, and its own memory."""

from dataclasses import dataclass, field
from typing import Any

from fcl_bench.client_data import ClientData
from fcl_bench.registration import Registration

Memory = dict[str, Any]  # of messages


@dataclass(frozen=True)
class Client:
    """What a client function is given."""

    id: int
    data: ClientData
    registration: Registration  # which of its classes were known when it registered, and which are new
    memory: Memory = field(default_factory=dict)  # private, kept between calls, never sent
    clip: float | None = None  # the largest norm with which a sample may enter a reply; None: as it is
    notes: dict[str, float] = field(default_factory=dict)

    def note(self, **values: float) -> None:
        """Leave diagnostics, such as a loss, for the record; the server's method does not see them.

        The record has their mean over the clients of the exchange.
        """
        for name, value in values.items():
            self.notes[name] = float(value)
