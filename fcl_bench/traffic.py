"""Where bytes are counted: the size of a message, and the account of each exchange between server and clients."""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from fcl_bench.message import leaves


def size(message: Any, path: str = "message") -> int:
    """Bytes of payload: what the tensors hold, 8 for a number, the UTF-8 length of a string.

    >>> import torch
    >>> size((torch.zeros(3), 1.5, "abc", None))
    23
    """
    return sum(_leaf_size(leaf) for _, leaf in leaves(message, path))


def _leaf_size(leaf: Any) -> int:
    if isinstance(leaf, Tensor):
        return leaf.nbytes
    return len(leaf.encode()) if isinstance(leaf, str) else 8 * (leaf is not None)


@dataclass
class Exchange:
    """The account of one ``clients.map``."""

    task: int
    exchange: int
    function: str
    asked: int
    answered: int = 0
    downlink_bytes: int = 0
    uplink_bytes: int = 0
    client_seconds: float = 0.0
    notes: dict[str, float] = field(default_factory=dict)  # diagnostics; of clients, their mean
    samples_revealed: int | None = None  # that the server can read off the replies; None is not measured
    revealing_uploads: int | None = None  # replies that reveal one or more
    lost: int = 0  # clients asked whose answer never comes
    late: int = 0  # answers to earlier tasks that have come now
    double: int = 0  # answers that came again, and were left out
    rejected_replies: int = 0  # answers that were not given to the method
    rejected: dict[str, str] = field(default_factory=dict)  # why, by client

    def sent(self, message: Any, clients: int) -> None:
        """Enter what so many clients receive in a step."""
        self.downlink_bytes += clients * size(message)

    def received(self, reply: Any, seconds: float) -> None:
        """Enter what one client sends in a step."""
        self.uplink_bytes += size(reply, f"the reply of {self.function}")
        self.client_seconds += seconds

    def arrived_late(self, reply: Any) -> None:
        """Enter an answer to an earlier task; its seconds were entered there."""
        self.received(reply, seconds=0.0)
        self.late += 1

    def came_again(self, reply: Any) -> None:
        """Enter an answer that was entered before: it is one more upload."""
        self.received(reply, seconds=0.0)
        self.double += 1

    def refused(self, client: int, reason: str, seconds: float) -> None:
        """Enter an answer that the method is not given."""
        self.rejected_replies += 1
        self.rejected[str(client)] = reason
        self.client_seconds += seconds

    def revealed(self, samples: int | None) -> None:
        """Enter how many training samples one answer reveals; None where it is not measured."""
        if samples is not None:
            self.samples_revealed = (self.samples_revealed or 0) + samples
            self.revealing_uploads = (self.revealing_uploads or 0) + (samples > 0)

    def noted(self, notes: dict[str, float], counts: dict[str, int]) -> None:
        """Enter the notes of one client; ``counts`` says how many clients have left each note."""
        for name, value in notes.items():
            counts[name] = counts.get(name, 0) + 1
            mean = self.notes.get(name, 0.0)
            self.notes[name] = mean + (value - mean) / counts[name]
