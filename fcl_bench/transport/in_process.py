"""The default transport: plain calls, one client after the other."""

from collections.abc import Iterable, Iterator
from typing import Any

from fcl_bench.federation import Client
from fcl_bench.transport import Request, call


class InProcess:
    """Calls the server's own method object; nothing is copied."""

    def map(self, request: Request, clients: Iterable[Client]) -> Iterator[tuple[Any, float]]:
        """See :class:`fcl_bench.transport.Transport`."""
        for client in clients:
            yield call(request.function, client, request.message, request.place)
