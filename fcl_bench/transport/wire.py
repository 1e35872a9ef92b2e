"""A transport that proves a method could run on separate machines: everything passes through bytes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from fcl_bench.decoding import Classes, MessageError, decode
from fcl_bench.message import encode
from fcl_bench.transport import Answer, Call, Failed, Memories, Site


class Wire:
    """A new site, and so a fresh method, for every call; message, reply and memory are encoded and decoded."""

    def open(self, site: Callable[[], Site]) -> None:
        """See :class:`fcl_bench.transport.Transport`."""
        self._new_site = site
        self._classes = site().classes
        self._kept: dict[int, bytes] = {}

    def map(self, call: Call, clients: Sequence[int]) -> Iterator[Answer]:
        """See :class:`fcl_bench.transport.Transport`."""
        sent = encode(call.message)
        for client in clients:
            site = self._new_site()
            if client in self._kept:
                site.restore({client: decode(self._kept[client], self._classes)})
            answer = site.answer(replace(call, message=decode(sent, self._classes)), client)
            self._kept[client] = encode(site.memories().get(client, {}))
            yield over_the_wire(answer, self._classes)

    def memories(self) -> Memories:
        """See :class:`fcl_bench.transport.Transport`."""
        memories = {client: decode(memory, self._classes) for client, memory in self._kept.items()}
        return {client: memory for client, memory in memories.items() if memory}

    def restore(self, memories: Memories) -> None:
        """See :class:`fcl_bench.transport.Transport`."""
        self._kept = {client: encode(memory) for client, memory in memories.items()}

    def close(self) -> None:
        """Nothing to let go of."""


def over_the_wire(answer: Answer, classes: Classes) -> Answer:
    """The same, with a reply that was bytes; one that cannot travel stays behind."""
    try:
        return replace(answer, reply=decode(encode(answer.reply), classes))
    except (TypeError, MessageError) as error:
        return replace(answer, reply=None, failed=Failed(str(error).rstrip(".")))
