"""``privacy=gaussian``: uploads are differentially private, by noise that each client adds before they leave.

Whoever sees all uploads can hardly tell whether a given sample was there: (epsilon, delta) bounds what its presence
changes. No sample counts for more than ``clip``, the largest norm of its features, and the noise is scaled to what one
sample of that norm can change. A client uploads once per task, and a sample belongs to one client and one task, so the
whole run has the budget of one upload.

Registration is not private: which classes a client declares in which task is in the open. Noise comes from the run's
seed, so that runs repeat themselves; whoever knows the seed can take it out again. Floating-point noise of finite
precision is not covered by the proof.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field

from fcl_bench.client import Client
from fcl_bench.errors import ConfigError, UserError
from fcl_bench.privacy import REPLY, Ask, Participants, Received
from fcl_bench.privacy.mechanism import noise_multiplier

Finite = Field(gt=0, allow_inf_nan=False)


@dataclass(frozen=True)
class Gaussian:
    """``arithmetic`` is what methods that have a choice follow: noise is added to float64 numbers."""

    name: str
    epsilon: Annotated[float, Finite]
    delta: Annotated[float, Field(gt=0, lt=1)]
    clip: Annotated[float, Finite]
    arithmetic: Literal["float64"]
    adds_noise: ClassVar[bool] = True
    sums_only: ClassVar[bool] = False

    def check(self, method: Any) -> None:
        """See :class:`fcl_bench.privacy.Privacy`."""
        if not getattr(method, "has_bounded_sums", False):
            raise ConfigError(
                "Expected privacy=gaussian with a method whose uploads are sums in which each sample is bounded, but "
                f"{type(method).__name__} with these settings has none: set method=afcl or method=fedncm with "
                "method.arithmetic=float64 (and method.form=statistics, method.min_count=1), or privacy=none."
            )

    def facts(self) -> dict[str, Any]:
        """See :class:`fcl_bench.privacy.Privacy`."""
        return {
            "name": self.name,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "clip": self.clip,
            "noise_multiplier": self.noise_multiplier,
        }

    def masked(self, method: Any) -> torch.dtype | None:
        """Nothing is."""
        return None

    @cached_property
    def noise_multiplier(self) -> float:
        """The standard deviation of the noise, for uploads that one sample changes by 1."""
        return noise_multiplier(self.epsilon, self.delta)

    def answer(self, method: Any, function: str, client: Client, step: str, message: tuple[Any, ...]) -> Any:
        """See :class:`fcl_bench.privacy.Privacy`."""
        reply = getattr(method, function)(replace(client, clip=self.clip), *message)
        return method.with_noise(reply, self.noise_multiplier * method.sensitivity(self.clip))

    def receive(
        self, ask: Ask, message: tuple[Any, ...], participants: Participants, exchange: int
    ) -> Iterator[Received]:
        """See :class:`fcl_bench.privacy.Privacy`."""
        if exchange > 0:
            raise UserError(
                "privacy=gaussian has a budget for one exchange in each task, but the method asks for a second one: "
                "set privacy=none, or take another method."
            )
        for client, reply in ask(REPLY, message, participants.asked, participants.answering):
            yield Received(reply, [client])
