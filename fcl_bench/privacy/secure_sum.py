"""``privacy=secure_sum``: the server learns the sum of the uploads of an exchange, and none of them.

A protocol of pairwise masks, for methods whose server only adds whole numbers. Clients stand in a circle, in the order
of their numbers, and each shares a mask with its nearest ``neighbours``. In an exchange,

1. every client draws a pair of X25519 keys and sends the public one; the server passes them on to the neighbours;
2. of every two neighbours, both derive the same mask from their shared secret; one adds it to its reply, the other
   subtracts it, modulo 2^64, or 2^32 where that is enough for the sum. The server adds up what arrives, and the masks
   of those who have answered cancel;
3. if clients have dropped out, their neighbours tell the server the keys of the masks that now lack their counterpart.
   The server takes these masks out.

Who may know what: the server follows the protocol, but looks at all that it receives (honest but curious). As many as
``colluding`` clients tell it all that they know. Then it learns the sum over the others, and nothing about any part of
that sum. To take clients out of this circle leaves the others connected as long as fewer than ``neighbours`` are taken
out: those that collude, and those that drop out. Where more drop out, the sum is not opened and the uploads are lost.
Not covered: a server that lies about who dropped out or that keeps an upload which arrives too late and then asks for
its masks, clients that send wrong numbers, and what the sum itself tells.

Keys come from the operating system's randomness. That changes no result: masks leave nothing behind in the sum.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor

from fcl_bench.client import Client
from fcl_bench.errors import ConfigError, UserError
from fcl_bench.message import mapped, tensors_in
from fcl_bench.privacy import REPLY, Ask, Participants, Received
from fcl_bench.privacy.masks import add_masks, new_key, public_part, shared_key

KEYS = "keys"
SEEDS = "seeds"
PRIVATE_KEY = "private key"  # in a client's memory
TYPES = {32: torch.int32, 64: torch.int64}


@dataclass(frozen=True)
class Neighbour:
    """Another client, as one client sees it."""

    client: int
    key: Tensor  # (32,) bytes: its public key


@dataclass(frozen=True)
class SecureSum:
    """``neighbours`` with whom a client shares a mask; ``colluding`` clients may work together with the server.

    ``bits`` of the numbers that are sent: None means what the method declares as ``sum_bits``, else 64.
    """

    name: str
    neighbours: PositiveInt
    colluding: NonNegativeInt
    bits: Literal[32, 64] | None
    adds_noise: ClassVar[bool] = False
    message_classes: ClassVar[tuple[type, ...]] = (Neighbour,)
    sums_only: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.neighbours % 2:
            raise ConfigError(
                "Expected privacy.neighbours to be even, as many on either side of a client, "
                f"but got {self.neighbours}."
            )
        if self.colluding >= self.neighbours:
            raise ConfigError(
                f"Expected privacy.colluding={self.colluding} to be less than privacy.neighbours={self.neighbours}: "
                "clients whose neighbours all collude would have no secret."
            )

    def check(self, method: Any) -> None:
        """See :class:`fcl_bench.privacy.Privacy`."""
        if not getattr(method, "adds_whole_numbers", False):
            raise ConfigError(
                f"Expected privacy=secure_sum with a method whose server only adds whole numbers, but "
                f"{type(method).__name__} with these settings does not: set method=afcl or method=fedncm with "
                "method.arithmetic=integer (and method.form=statistics), or privacy=none."
            )

    def facts(self) -> dict[str, Any]:
        """See :class:`fcl_bench.privacy.Privacy`."""
        return {"name": self.name, "neighbours": self.neighbours, "colluding": self.colluding}

    def masked(self, method: Any) -> torch.dtype:
        """See :class:`fcl_bench.privacy.Privacy`."""
        return TYPES[self.bits or int(getattr(method, "sum_bits", 64))]

    def answer(self, method: Any, function: str, client: Client, step: str, message: tuple[Any, ...]) -> Any:
        """See :class:`fcl_bench.privacy.Privacy`."""
        if step == KEYS:
            client.memory[PRIVATE_KEY] = new_key()
            return public_part(client.memory[PRIVATE_KEY])
        private: Tensor = client.memory[PRIVATE_KEY]
        everybody: dict[int, tuple[Neighbour, ...]] = message[0]
        neighbours = everybody.get(client.id, ())
        if step == SEEDS:
            return {neighbour.client: shared_key(private, neighbour.key) for neighbour in neighbours}
        kind = self.masked(method)
        reply = getattr(method, function)(client, *message[1:])
        numbers = mapped(reply, partial(widened, kind=kind, clients=len(everybody)))
        masks = [(shared_key(private, other.key), sign_of(client.id, other.client)) for other in neighbours]
        add_masks(numbers, masks)
        return numbers

    def receive(
        self, ask: Ask, message: tuple[Any, ...], participants: Participants, exchange: int
    ) -> Iterator[Received]:
        """See :class:`fcl_bench.privacy.Privacy`."""
        circle = sorted(participants.asked)
        if len(circle) < self.colluding + 2:
            raise UserError(
                f"Expected at least {self.colluding + 2} clients in an exchange with privacy.colluding="
                f"{self.colluding}, but {len(circle)} take part: their sum would tell what one of them has sent. "
                "Raise partition.clients or federation.participation, or lower privacy.colluding."
            )
        public = dict(ask(KEYS, (), circle, circle))
        links = {client: self._neighbours(client, circle) for client in circle}
        seen = {client: tuple(Neighbour(other, public[other]) for other in links[client]) for client in circle}
        uploads = ask(REPLY, (seen, *message), circle, participants.answering)
        total, answered = added(uploads)
        dropped = sorted(set(circle) - set(answered))
        if len(dropped) > min(self.neighbours, len(circle) - 1) - 1 - self.colluding:
            warnings.warn(
                f"{len(dropped)} of {len(circle)} clients have dropped out, too many to open the sum of the others "
                "without telling what one of them has sent: their uploads are lost.",
                stacklevel=2,
            )
            return
        if dropped:
            self._take_out_masks_of(dropped, total, seen, answered, ask)
        yield Received(total, answered)

    def _neighbours(self, client: int, circle: Sequence[int]) -> list[int]:
        """The nearest clients in the circle, half of them on either side; all, where there are not more."""
        place = circle.index(client)
        half = self.neighbours // 2
        steps = [step for step in range(-half, half + 1) if step]
        near = {circle[(place + step) % len(circle)] for step in steps}
        return sorted(near - {client})

    def _take_out_masks_of(
        self,
        dropped: Sequence[int],
        total: Any,
        seen: dict[int, tuple[Neighbour, ...]],
        answered: Sequence[int],
        ask: Ask,
    ) -> None:
        """One more step: the neighbours of those who have dropped out tell the keys of the masks they shared."""
        lost: dict[int, tuple[Neighbour, ...]] = {}
        for client in answered:
            missing = tuple(neighbour for neighbour in seen[client] if neighbour.client in dropped)
            if missing:
                lost[client] = missing
        for client, keys in ask(SEEDS, (lost,), sorted(lost), sorted(lost)):
            add_masks(total, [(key, -sign_of(client, other)) for other, key in keys.items()])


def widened(leaf: Any, kind: torch.dtype, clients: int) -> Tensor | None:
    """A copy of a tensor of whole numbers in this type, which holds the sum over so many clients; None as it is."""
    if leaf is None:
        return None
    if not isinstance(leaf, Tensor) or leaf.is_floating_point() or leaf.is_complex():
        found = leaf.dtype if isinstance(leaf, Tensor) else type(leaf).__name__
        raise UserError(
            f"Expected replies of tensors of whole numbers for privacy=secure_sum, but there is one of {found}: "
            "a method that declares adds_whole_numbers must send nothing else."
        )
    room = torch.iinfo(kind)
    largest = room.max // clients
    if torch.iinfo(leaf.dtype).max > largest and leaf.numel() > 0:
        low, high = (int(end) for end in leaf.aminmax())
        if not -largest <= low <= high <= largest:
            raise UserError(
                f"A reply has the number {max(high, -low):,}, but sums over {clients} clients in {room.bits} bits are "
                f"exact up to {largest:,} at each: set privacy.bits=64, or fewer method.bits."
            )
    return leaf.to(kind, copy=True, memory_format=torch.contiguous_format)


def sign_of(client: int, other: int) -> int:
    """Of two neighbours, the one with the smaller number adds their mask, and the other one subtracts it."""
    return 1 if client < other else -1


def added(uploads: Iterator[tuple[int, Any]]) -> tuple[Any, list[int]]:
    """The sum of all uploads modulo 2^64, and whose they are; None if there is none."""
    total = None
    clients = []
    for client, upload in uploads:
        clients.append(client)
        if total is None:
            total = mapped(upload, lambda leaf: None if leaf is None else leaf.clone())
        else:
            add(total, upload)
    return total, clients


def add(total: Any, upload: Any) -> None:
    """Add one upload in place."""
    for (path, sum_so_far), (_, numbers) in zip(tensors_in(total), tensors_in(upload), strict=True):
        if sum_so_far.shape != numbers.shape:
            raise UserError(
                f"Expected replies of one shape for privacy=secure_sum, but {path} has {tuple(sum_so_far.shape)} at "
                f"one client and {tuple(numbers.shape)} at another."
            )
        sum_so_far += numbers
