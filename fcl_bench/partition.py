"""Spatial splits: which client holds which sample of a task, as a pure function of the labels and the seed.

A split is a frozen dataclass named by ``_target_`` in one YAML of ``configs/partition/``; :class:`Spatial` lists
what it must have.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

import numpy as np
from pydantic import Field, PositiveInt

from fcl_bench.seeds import generator

Shares = tuple[np.ndarray, ...]  # positions, one array per client
ATTEMPTS = 100  # ``capped``: draws after which empty clients are accepted


class Spatial(Protocol):
    """A way to split a task over clients."""

    @property
    def name(self) -> str:
        """As in ``partition=NAME``."""
        ...

    @property
    def clients(self) -> int:
        """How many."""
        ...

    def split(self, labels: np.ndarray, seed: int, task: int) -> Shares:
        """Each client's positions in the task, ascending: clients keep the order of arrival. Some may get nothing."""
        ...


@dataclass(frozen=True)
class Dirichlet:
    """Label skew: the smaller ``alpha``, the fewer classes a client holds.

    ``equal``: every client has its own preferences, Dirichlet distributed over the classes of the task, and in random
    order each takes its fill, N / clients samples, from what is left (as in MFCL; the equal sizes of the AFCL paper).
    ``capped``: every class is spread over the clients by a Dirichlet draw that leaves out clients which already hold
    N / clients samples, drawn again while a client is empty (as in TARGET, PFLlib and AFL; sizes about equal).
    Preferences are drawn anew for every task (``fresh``) or kept for the whole stream (``fixed``).
    """

    clients: PositiveInt
    alpha: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    balance: Literal["equal", "capped"] = "equal"
    priors: Literal["fresh", "fixed"] = "fresh"
    name: str = "dirichlet"

    def split(self, labels: np.ndarray, seed: int, task: int) -> Shares:
        """Decide how many samples of which class each client gets, then deal them out at random."""
        rng = generator(seed, "partition", task)
        present, classes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
        if self.balance == "equal":
            counts = _fill(self._preferences(present, seed, rng), sizes, rng)
        else:
            counts = self._spread_over_all(present, sizes, seed, rng)
        owners = np.tile(np.arange(self.clients), len(sizes))  # client by client, class after class
        owner = np.empty(len(labels), dtype=np.int64)
        owner[_by_class(classes, rng)] = np.repeat(owners, counts.T.ravel())
        return _shares(owner, self.clients)

    def _spread_over_all(
        self, present: np.ndarray, sizes: np.ndarray, seed: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Counts (clients, classes), drawn again while a client is empty, if another draw can change that."""
        again = self.priors == "fresh" and sizes.sum() >= self.clients
        for _ in range(ATTEMPTS if again else 1):
            counts = _spread(self._preferences(present, seed, rng), sizes)
            if counts.sum(axis=1).all():
                break
        return counts

    def _preferences(self, present: np.ndarray, seed: int, rng: np.random.Generator) -> np.ndarray:
        """Logarithms of gamma draws (clients, classes): Dirichlet when normalised over either axis, on any subset."""
        if self.priors == "fresh":
            return _log_gamma(rng, self.alpha, (self.clients, len(present)))
        sources = [generator(seed, "partition", "class", label) for label in present]
        by_class = [_log_gamma(source, self.alpha, (self.clients,)) for source in sources]
        return np.reshape(by_class, (len(present), self.clients)).T


@dataclass(frozen=True)
class IidClients:
    """No spatial shift: every client holds an equal random part of the task."""

    clients: PositiveInt
    name: str = "iid"

    def split(self, labels: np.ndarray, seed: int, task: int) -> Shares:
        """Deal the samples out in turn, in random order."""
        rng = generator(seed, "partition", task)
        turn = rng.permutation(self.clients)
        return _shares(turn[rng.permutation(len(labels)) % self.clients], self.clients)


@dataclass(frozen=True)
class Shards:
    """Pathological label skew (McMahan et al., 2017): sort by label, cut into equal shards, deal those at random."""

    clients: PositiveInt
    shards_per_client: PositiveInt = 2
    name: str = "shards"

    def split(self, labels: np.ndarray, seed: int, task: int) -> Shares:
        """Give every client ``shards_per_client`` shards."""
        rng = generator(seed, "partition", task)
        shards = self.clients * self.shards_per_client
        holder = rng.permutation(shards) % self.clients
        owner = np.empty(len(labels), dtype=np.int64)
        owner[_by_class(labels, rng)] = holder[np.arange(len(labels)) * shards // max(len(labels), 1)]
        return _shares(owner, self.clients)


def _log_gamma(rng: np.random.Generator, alpha: float, shape: tuple[int, ...]) -> np.ndarray:
    """Logarithms of Gamma(alpha) draws, from Gamma(a) = Gamma(a + 1) U^(1/a): no alpha is small enough to underflow."""
    return np.log(rng.standard_gamma(alpha + 1, shape)) - rng.standard_exponential(shape) / alpha


def _fill(preferences: np.ndarray, sizes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Counts (clients, classes): each client in turn draws classes by preference until it has its quota.

    What was drawn beyond what a class has left is drawn again from the others, still by preference: MFCL's uniform
    share for classes of nearly no preference would make clients of a tiny alpha more alike, not less.
    """
    clients = len(preferences)
    quota, rest = divmod(int(sizes.sum()), clients)
    counts = np.zeros(preferences.shape, dtype=np.int64)
    left = sizes.copy()  # (classes,) samples that nobody has yet
    for turn, client in enumerate(rng.permutation(clients)):
        missing = quota + (turn < rest)  # the first clients in turn take one of the rest each
        while missing:
            drawn = rng.multinomial(missing, _chances(preferences[client], left > 0))  # (classes,)
            taken = np.minimum(drawn, left)
            counts[client] += taken
            left -= taken
            missing -= taken.sum()
    return counts


def _spread(preferences: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Counts (clients, classes): class by class, cut by the preferences of the clients that are not yet full."""
    clients = len(preferences)
    counts = np.zeros(preferences.shape, dtype=np.int64)
    held = np.zeros(clients, dtype=np.int64)
    for label, size in enumerate(sizes):
        chances = _chances(preferences[:, label], held * clients < sizes.sum())
        cuts = (np.cumsum(chances)[:-1] * size + 1e-6).astype(np.int64)  # a sum of 0.999... is 1: nobody gets the rest
        counts[:, label] = np.diff(cuts, prepend=0, append=size)
        held += counts[:, label]
    return counts


def _chances(preferences: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Probabilities in proportion to the preferences (given as logarithms) of those allowed."""
    weights = np.exp(np.where(allowed, preferences - preferences[allowed].max(), -np.inf))
    return weights / weights.sum()


def _by_class(classes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Positions sorted by class, in random order within a class."""
    shuffled = rng.permutation(len(classes))
    return shuffled[np.argsort(classes[shuffled], kind="stable")]


def _shares(owner: np.ndarray, clients: int) -> Shares:
    sizes = np.bincount(owner, minlength=clients)
    return tuple(np.split(np.argsort(owner, kind="stable"), np.cumsum(sizes)[:-1]))
