"""A transport that proves a method could run on separate machines: everything passes through bytes."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from fcl_bench.federation import Client
from fcl_bench.message import decode, encode
from fcl_bench.transport import Request, call


class Wire:
    """A fresh method for every call; message, reply and client memory are encoded and decoded."""

    def map(self, request: Request, clients: Iterable[Client]) -> Iterator[tuple[Any, float]]:
        """See :class:`fcl_bench.transport.Transport`."""
        sent = encode(request.message)
        for client in clients:
            function = getattr(request.build(), request.function.__name__)
            away = replace(client, memory=decode(encode(client.memory)))
            reply, seconds = call(function, away, decode(sent), request.place)
            client.memory.clear()
            client.memory.update(decode(encode(away.memory)))
            yield decode(encode(reply)), seconds
