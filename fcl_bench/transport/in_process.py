"""The default transport: plain calls, one client after the other."""

from collections.abc import Callable, Iterator, Sequence

from fcl_bench.transport import Answer, Call, Memories, Site


class InProcess:
    """One site for all clients; messages and replies are handed over as they are."""

    def open(self, site: Callable[[], Site]) -> None:
        """See :class:`fcl_bench.transport.Transport`."""
        self._site = site()

    def map(self, call: Call, clients: Sequence[int]) -> Iterator[Answer]:
        """See :class:`fcl_bench.transport.Transport`."""
        for client in clients:
            yield self._site.answer(call, client)

    def memories(self) -> Memories:
        """See :class:`fcl_bench.transport.Transport`."""
        return self._site.memories()

    def restore(self, memories: Memories) -> None:
        """See :class:`fcl_bench.transport.Transport`."""
        self._site.restore(memories)

    def close(self) -> None:
        """Nothing to let go of."""
