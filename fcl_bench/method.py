"""The contract of a method, which is a short server program.

A method may do one remote thing only: ask the clients to run one of its functions on a message. ``clients.map`` is for
rounds, in which some clients are drawn to take part; ``clients.everyone.map`` is for what happens once per task. Fewer
clients than asked may answer, or nobody, and what a client kept may be gone. A complete method::

    @dataclass(frozen=True)
    class Sums:                                    # the state; also what a client replies, and what is checked of it
        totals: Annotated[Tensor, Shape("classes", "features"), Kind(torch.float64), ByClass()]

    class NearestMean:
        exact = exemplar_free = needs_frozen_backbone = True

        def __init__(self, backbone: Backbone):    # first the backbone, then hyper-parameters with types
            self.features = backbone.features

        def init(self) -> Sums:
            return Sums(torch.zeros(0, self.features, dtype=torch.float64))

        def learn(self, state: Sums, task: Task, clients: Clients) -> Iterator[Sums]:
            totals = pad(state.totals, (0, 0, 0, task.seen - len(state.totals)))
            for reply in clients.everyone.map(self.summarise, task.seen):
                totals = totals + reply.totals
            yield Sums(totals)

        def summarise(self, client: Client, classes: int) -> Sums:      # runs at the client
            totals = torch.zeros(classes, self.features, dtype=torch.float64)
            for inputs, labels in client.data.batches(1024):
                totals.index_add_(0, labels, normalize(inputs.double()))
            return Sums(totals)

        def classifier(self, state: Sums) -> nn.Module:
            return Scores(normalize(state.totals).T).eval()

        def class_sums(self, reply: Sums) -> ClassSums:                 # what the server can read off a reply
            return ClassSums(reply.totals, resolution=1e-12, normalised=True)

Replies are compared with what a client function's annotation declares (:mod:`fcl_bench.door`) before ``learn`` gets
them; one that does not fit is dropped, and the other replies of the exchange are given.

With one YAML in ``configs/method/`` whose ``_target_`` names the class, ``python -m fcl_bench method=...`` runs it.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

from torch import nn

from fcl_bench.federation import Clients
from fcl_bench.stream import Task

State = Any  # a message: a frozen dataclass of tensors, numbers, strings and nested dicts or tuples of them


@runtime_checkable
class Method(Protocol):
    """Three functions, and hyper-parameters in the constructor. The object holds no progress: that is the state.

    Declared facts are optional class attributes, each ``False`` unless given; they select checks and become columns of
    a leaderboard: ``exact`` (the result does not depend on how data are spread over clients), ``exemplar_free`` (stores
    no samples and sends none as such; it does not say that nothing can be inferred from what is sent),
    ``needs_frozen_backbone`` (refuses to train end to end), ``oracle`` (sees what a federation must not show, so it is
    a reference in a leaderboard and no competitor), ``sees_future_classes`` (``task.public`` has samples of all classes
    of the data, also of those that no client has declared yet).

    ``takes_images = True`` says that a method with a frozen backbone runs it by itself, so clients may hold images.
    ``needs_public_samples = True`` says that it uses ``task.public``, so a stream that reserves no samples is refused.

    ``resumes_within_tasks = True`` says that ``learn`` goes on after ``task.yielded`` states of a task, from the last
    of them; other methods are resumed at the beginning of a task.

    ``takes_late_replies = True`` says that a reply to a question of an earlier task may come among those of a later
    one. It knows the classes that were registered then; for other methods such replies are lost.

    The dataclasses that state, messages and replies are made of are those in the annotations of ``init``, ``learn`` and
    of functions for clients; ``message_classes = (...)`` names others that clients keep. See
    :mod:`fcl_bench.message_classes`: no other class is constructed when bytes are read.

    ``adds_whole_numbers = True`` says that the server only adds the replies of clients, tensor by tensor, and that
    these are whole numbers in tensors of equal shape at all clients of an exchange. Then ``privacy=secure_sum`` gives
    it the sum of all replies as one, in 64 bits, or in 32 if ``sum_bits = 32`` says that sums fit into these.

    ``has_bounded_sums = True`` says that it can take part in ``privacy=gaussian``: replies are sums over samples, no
    sample enters them with features of a larger norm than ``client.clip``, ``sensitivity(clip)`` is how far one sample
    moves a reply at most, and ``with_noise(reply, deviation)`` is the reply plus noise on every number that samples
    decide about.

    Exact methods may offer ``evidence(state)``, an :class:`fcl_bench.Evidence`, whose hashes go into the record; then
    the classifier has its weights, (features, classes), in the buffer ``weights``. ``joint(data, classes)`` is the
    state that one place with all these samples would have, for ``python -m fcl_bench certify``.
    ``unlearn(state, forgotten, classes)`` is the state of a run that has never seen the samples in ``forgotten``, for
    ``python -m fcl_bench unlearn``. These are a :class:`fcl_bench.ClientData` with the class numbers of the state.
    ``classes``, a tensor, are the numbers that the classes which are left have had, in the order of their new ones.

    Three abilities are found by their presence. ``class_sums(reply)``: an :class:`fcl_bench.ClassSums`, what the server
    can compute from a reply about each class, or None for a reply that says nothing of the kind. The record then has
    ``samples_revealed``. Methods that declare ``exemplar_free`` and send sums need it. ``other_classifiers(state)``: a
    dict of further classifiers by name. The record has their accuracies too. ``personal_classifier(state, memory)``: a
    classifier for the client that keeps ``memory``. It is scored on the test samples of the classes which that client
    has held.
    """

    def init(self) -> State:
        """The state before the first task."""
        ...

    def learn(self, state: State, task: Task, clients: Clients) -> Iterator[State]:
        """Yield whenever there is a global model worth scoring; the last one is carried into the next task."""
        ...

    def classifier(self, state: State) -> nn.Module:
        """In eval mode: from inputs as clients hold them to scores (n, ``task.seen``)."""
        ...


FACTS = {  # and what they mean, in short
    "exact": "does not depend on how data are spread over clients",
    "exemplar_free": "stores no samples; what uploads reveal is another question",
    "needs_frozen_backbone": "refuses to train end to end",
    "oracle": "sees what a federation must not show",
    "sees_future_classes": "has samples of classes that no client has declared",
}


def other_classifiers(method: Any, state: State) -> Iterable[tuple[str, nn.Module]]:
    """Further classifiers of a state, by name, if the method has ``other_classifiers(state)``: scored, not ranked."""
    found = getattr(method, "other_classifiers", None)
    return found(state).items() if found else ()


def facts(method: object) -> dict[str, bool]:
    """The declared facts of a method or of its class."""
    return {name: bool(getattr(method, name, False)) for name in FACTS}
