"""Class registration: how the server learns of classes, and the numbers it gives them.

When a task opens, the clients declare in order the classes they hold; a class nobody declared before gets the next
number. So the classes seen so far are always ``0 .. seen - 1``.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a finished run is shown without torch
    from fcl_bench.client_data import ClientData


@dataclass(frozen=True)
class Registration:
    """The classes one client declares when a task opens, by their registered numbers."""

    client: int
    registered: int  # classes registered before this client
    known: tuple[int, ...]  # its classes that were registered before
    new: tuple[int, ...]  # its other classes: the next numbers, in order of their labels


@dataclass(frozen=True)
class Task:
    """One time step, as the server knows it once all clients have declared their classes.

    ``public`` are samples that the server may use, see ``stream.reserved``: those of classes seen so far. A method that
    declares ``sees_future_classes`` is given those of all classes of the data. Where a class is not registered yet, the
    number of all classes plus its label stands for it: no registered class ever has such a number, and it does not tell
    in which order classes will come.
    """

    index: int
    registrations: tuple[Registration, ...]  # one per client
    known: tuple[int, ...]  # classes of this task registered in earlier tasks
    new: tuple[int, ...]  # classes registered in this task
    seen: int  # classes registered so far
    yielded: int = 0  # states of this task that `learn` handed out before it was interrupted; 0 unless it is resumed
    public: "ClientData | None" = None  # None where the stream reserves no samples

    @property
    def classes(self) -> tuple[int, ...]:
        """All classes of this task."""
        return self.known + self.new


def register(held: Iterable[Sequence[Sequence[int]]]) -> tuple[tuple[Task, ...], tuple[int, ...]]:
    """The tasks, and the label of every registered class, from the ascending labels held in each task by each client.

    >>> (first, second), order = register([[[3, 7], [7, 9]], [[1, 9], []]])
    >>> order
    (3, 7, 9, 1)
    >>> first.registrations[1]
    Registration(client=1, registered=2, known=(1,), new=(2,))
    >>> second.known, second.new, second.seen
    ((2,), (3,), 4)
    """
    number: dict[int, int] = {}
    tasks = []
    for index, clients in enumerate(held):
        before = len(number)
        registrations = []
        for client, labels in enumerate(clients):
            registered = len(number)
            known = sorted(number[label] for label in labels if label in number)
            for label in labels:
                number.setdefault(label, len(number))
            registrations.append(Registration(client, registered, tuple(known), tuple(range(registered, len(number)))))
        known = sorted({each for registration in registrations for each in registration.known if each < before})
        new = tuple(range(before, len(number)))
        tasks.append(Task(index, tuple(registrations), tuple(known), new, len(number)))
    return tuple(tasks), tuple(number)
