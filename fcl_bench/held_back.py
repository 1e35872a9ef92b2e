"""Samples that a client holds back until it has enough of their class, so that no upload is about a few of them."""

from fcl_bench.client import Client
from fcl_bench.client_data import ClientData
from fcl_bench.replay import Samples

MEMORY = "held_back"  # where a client keeps them


def released(client: Client, min_count: int) -> ClientData:
    """At the client, once per task: the samples that go into its upload; from 2 on, ``min_count`` or more of a class.

    The others stay in its memory. Once there are enough together with those of later tasks, all of them are released,
    and forgotten. What is never released is lost to the server.
    """
    if min_count == 1:
        return client.data
    together = Samples(*client.data.tensors)
    if MEMORY in client.memory:
        together = client.memory.pop(MEMORY) + together
    sizes = together.labels.bincount()
    enough = sizes[together.labels] >= min_count
    if not enough.all():
        client.memory[MEMORY] = Samples(*together[~enough])
    positions = enough.nonzero().flatten()
    return ClientData(together.inputs, positions, together.labels[positions])
