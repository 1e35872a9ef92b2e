"""A choice of privacy that only measures: what the samples of a client, one by one, do to its uploads."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import torch

from fcl_bench.client import Client
from fcl_bench.client_data import ClientData
from fcl_bench.message import tensors_in
from fcl_bench.privacy import PLAIN, Ask, Participants, Received

CLIPS = (0.5, 2.0)
SAMPLES = 3  # of each client that are left out


class LeavesOneOut:
    """Every upload goes as it is, if no sample moves it by more than the method's ``sensitivity``."""

    adds_noise: ClassVar[bool] = False
    sums_only: ClassVar[bool] = False

    def check(self, method: Any) -> None:
        """Every method with bounded sums will do."""

    def answer(self, method: Any, function: str, client: Client, step: str, message: tuple[Any, ...]) -> Any:
        """See :class:`fcl_bench.privacy.Privacy`."""
        ask = getattr(method, function)
        for clip in CLIPS:
            bounded = replace(client, clip=clip)
            upload = ask(bounded, *message)
            most = method.sensitivity(clip)
            for left_out in range(min(SAMPLES, len(client.data))):
                moved = distance(upload, ask(replace(bounded, data=without(left_out, client.data)), *message))
                assert moved <= most * (1 + 1e-9), (
                    f"a sample moves the reply of {function} by {moved:.3g} with a clip of {clip}, more than its "
                    f"sensitivity {most:.3g}"
                )
        return ask(client, *message)

    def receive(
        self, ask: Ask, message: tuple[Any, ...], participants: Participants, exchange: int
    ) -> Iterator[Received]:
        """See :class:`fcl_bench.privacy.Privacy`."""
        return PLAIN.receive(ask, message, participants, exchange)

    def masked(self, method: Any) -> torch.dtype | None:
        """Nothing is."""
        return None

    def facts(self) -> dict[str, Any]:
        """Nothing to say."""
        return {}


def without(position: int, data: ClientData) -> ClientData:
    """All samples but one."""
    inputs, labels = data.tensors
    others = torch.arange(len(labels)) != position
    return ClientData(inputs[others], torch.arange(int(others.sum())), labels[others])


def distance(one: Any, other: Any) -> float:
    """The Euclidean distance of two messages of the same shape."""
    squares = 0.0
    for (_, left), (_, right) in zip(tensors_in(one), tensors_in(other), strict=True):
        squares += float((left.double() - right.double()).square().sum())
    return math.sqrt(squares)
