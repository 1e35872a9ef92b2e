"""The rules of the contract: each is a function of a :class:`Sandbox` that raises an ``AssertionError``."""

import atexit
import os
import random
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch

from fcl_bench.checks.hostile import Hostile, foreign_class, lies, said_to
from fcl_bench.checks.leaves_one_out import LeavesOneOut
from fcl_bench.checks.mutations import Address, mutations
from fcl_bench.checks.sandbox import CLASSES, TASKS, Sandbox, SandboxRun
from fcl_bench.config.catalogue import catalogue, config_file
from fcl_bench.decoding import decode
from fcl_bench.federation import Participation
from fcl_bench.message import encode, leaves
from fcl_bench.message_classes import declared_classes
from fcl_bench.method import Method, facts
from fcl_bench.new_processes import quick_context
from fcl_bench.privacy.secure_sum import SecureSum
from fcl_bench.transport import Answer, Call, Transport
from fcl_bench.transport.in_process import InProcess
from fcl_bench.transport.processes import Processes
from fcl_bench.transport.wire import Wire

Check = Callable[[Sandbox], None]
ROUGH = Participation(  # chosen so that the sandbox meets all of it, first of all an exchange that nobody answers
    participation=0.7,
    dropout=0.3,
    lost=0.2,
    late=0.4,
    delay=1,
    twice=0.3,
    join_later=0.2,
    away=0.3,
    forget=0.2,
)


def check_builds_and_starts_with_a_message(sandbox: Sandbox) -> None:
    """The method has the three functions, and ``init()`` survives the way through bytes."""
    method = sandbox.method()
    assert isinstance(method, Method), f"{type(method).__name__} lacks one of init, learn, classifier"
    state = method.init()
    back = decode(encode(state), declared_classes(type(method)))
    assert encode(back) == encode(state), "init() is not the same after encoding and decoding"


def check_runs_over_the_wire(sandbox: Sandbox) -> None:
    """A fresh method per client call gives the same state to the bit: no hidden state, no shared references."""
    away = sandbox.run(transport=Wire()).state
    _assert_equal(sandbox.plain.state, away, "the state differs when every message passes through bytes")


def check_runs_in_other_processes(sandbox: Sandbox) -> None:
    """Clients that live in two other processes give the same state to the bit."""
    away = sandbox.run(transport=_two_processes()).state
    _assert_equal(sandbox.plain.state, away, "the state differs when clients live in other processes")


def check_leaves_messages_alone(sandbox: Sandbox) -> None:
    """Nothing that was sent or handed over is changed in place."""
    for original, now in sandbox.plain.kept:
        assert encode(now) == original, "a message, reply or earlier state was changed after it had been handed over"


def check_repeats_itself(sandbox: Sandbox) -> None:
    """Same seed, same state."""
    _assert_equal(sandbox.plain.state, sandbox.run().state, "two runs with one seed differ")


def check_order_of_clients_does_not_matter(sandbox: Sandbox) -> None:
    """Answers in another order give the same scores, up to rounding."""
    shuffled = sandbox.run(participation=Participation(arrival="shuffled")).scores
    _assert_close(sandbox.plain.scores, shuffled, 1e-3, "the order in which clients answer changes the scores")


def check_exact_methods_do_not_see_clients(sandbox: Sandbox) -> None:
    """For ``exact`` methods: one client's data in the hands of two give the same scores."""
    if facts(sandbox.method())["exact"]:
        two = sandbox.run(stream=sandbox.with_first_client_split()).scores
        _assert_close(
            sandbox.plain.scores, two, 1e-8, "splitting a client in two changes the scores of an exact method"
        )


def check_unlearning_is_as_never_having_learned(sandbox: Sandbox) -> None:
    """For ``exact`` methods with ``unlearn``: without some samples the state is that of a run without them.

    To the bit where whole numbers are added, else the same scores.
    """
    method = sandbox.method()
    if not facts(method)["exact"] or not hasattr(method, "unlearn"):
        return
    before = encode(sandbox.plain.state)
    for name, forgotten in sandbox.some_samples():
        stream = sandbox.without(forgotten)
        state = sandbox.unlearned(forgotten, stream)
        assert encode(sandbox.plain.state) == before, "unlearning changes the state that it is given"
        expected = sandbox.run(stream=stream)
        complaint = f"after unlearning {name}, the model is not that of a run without these samples"
        if getattr(method, "adds_whole_numbers", False):
            _assert_equal(expected.state, state, complaint)
        scores = _scores(method.classifier(state), sandbox)
        assert scores.shape == expected.scores.shape, f"{complaint}: it has other classes"
        _assert_close(expected.scores, scores, 1e-8, complaint)


def check_exact_methods_reach_every_client(sandbox: Sandbox) -> None:
    """For ``exact`` methods: the same scores where only half of the clients take part in a round."""
    if facts(sandbox.method())["exact"]:
        half = sandbox.run(participation=Participation(participation=0.5)).scores
        complaint = "an exact method has not heard of all clients: what happens once per task is for clients.everyone"
        _assert_close(sandbox.plain.scores, half, 1e-8, complaint)


def check_survives_few_clients_and_little_data(sandbox: Sandbox) -> None:
    """Clients with one sample or none."""
    _assert_finite(sandbox.starved.state, "little data")


def check_goes_on_whatever_clients_do(sandbox: Sandbox) -> None:
    """Clients that do not answer, nobody at all even; late and double answers; clients that come, go and forget.

    The state is valid, and the same to the bit if the run is saved and loaded wherever the method can be resumed.
    """
    once = sandbox.run(participation=ROUGH)
    _assert_finite(once.state, "few answers")
    assert once.scores.isfinite().all(), "the classifier gives scores that are not finite with few answers"
    within = getattr(sandbox.method(), "resumes_within_tasks", False)
    again = sandbox.run(participation=ROUGH, interrupted="states" if within else "tasks")
    _assert_equal(once.state, again.state, "two runs with the same faults differ, one of them saved and loaded")


def check_classifier(sandbox: Sandbox) -> None:
    """Finite scores, one per class seen so far; the state stays as it was; eval mode."""
    state = sandbox.plain.state
    before = encode(state)
    classifier = sandbox.method().classifier(state)
    assert not any(module.training for module in classifier.modules()), "the classifier is not in eval mode"
    scores = _scores(classifier, sandbox)
    expected = (len(sandbox.test), sandbox.stream.tasks[-1].seen)
    assert scores.shape == expected, f"the classifier gives scores of shape {tuple(scores.shape)}, expected {expected}"
    assert scores.isfinite().all(), "the classifier gives scores that are not finite"
    assert encode(state) == before, "scoring changes the state"


def check_classifiers_are_independent(sandbox: Sandbox) -> None:
    """A classifier stays what it was after another one was asked for."""
    method = sandbox.method()
    classifier = method.classifier(sandbox.plain.state)
    before = _scores(classifier, sandbox)
    other = sandbox.run(sandbox.evenly_dealt(tasks=1)).state
    method.classifier(other)
    assert torch.equal(before, _scores(classifier, sandbox)), (
        "a classifier scores differently after another one was asked for: classifier() must give a copy"
    )


def check_continues_from_a_checkpoint(sandbox: Sandbox) -> None:
    """Saved, loaded and continued by a fresh method after every task, a run ends as the uninterrupted one."""
    pieces = sandbox.run(interrupted="tasks").state
    _assert_equal(sandbox.plain.state, pieces, "the state differs after saving and loading between tasks")


def check_resumes_within_tasks(sandbox: Sandbox) -> None:
    """For methods that declare ``resumes_within_tasks``: the same after every state that is handed out."""
    if getattr(sandbox.method(), "resumes_within_tasks", False):
        pieces = sandbox.run(interrupted="states").state
        _assert_equal(sandbox.plain.state, pieces, "the state differs after saving and loading within a task")


def check_learns(sandbox: Sandbox) -> None:
    """Clearly above chance when all classes arrive at once."""
    stream = sandbox.evenly_dealt(tasks=1)
    best = sandbox.run(stream).scores.argmax(dim=1)
    right = float((best == sandbox.test_numbers(stream)).float().mean())
    assert right > 3 / CLASSES, (
        f"{right:.0%} right on {CLASSES} easily separable classes, where guessing gives {1 / CLASSES:.0%}"
    )


def check_exemplar_free_methods_keep_no_samples(sandbox: Sandbox) -> None:
    """For ``exemplar_free`` methods: where clients have many samples of a class, none is sent or stored."""
    if facts(sandbox.method())["exemplar_free"]:
        stream = sandbox.evenly_dealt(tasks=2)  # a sum over several samples shows none of them
        kept = sandbox.run(stream, recorded=True).kept
        classes = declared_classes(type(sandbox.method()))
        passed = tuple(decode(original, classes) for original, _ in kept)
        for path, leaf in leaves(passed, "sent or stored"):
            assert not sandbox.holds_samples(leaf), f"an exemplar-free method lets a training sample out, in {path}"


def check_whole_numbers_add_up_behind_masks(sandbox: Sandbox) -> None:
    """For methods that declare ``adds_whole_numbers``: the same state to the bit where the server sees sums only."""
    if getattr(sandbox.method(), "adds_whole_numbers", False):
        secret = sandbox.run(privacy=SecureSum("secure_sum", neighbours=2, colluding=1, bits=None)).state
        _assert_equal(sandbox.plain.state, secret, "the state differs when the server is given the sum of all replies")


def check_bounded_sums_are_bounded(sandbox: Sandbox) -> None:
    """For methods that declare ``has_bounded_sums``: one sample moves an upload by no more than ``sensitivity``."""
    if getattr(sandbox.method(), "has_bounded_sums", False):
        sandbox.run(privacy=LeavesOneOut())


def check_exemplar_free_methods_tell_what_they_reveal(sandbox: Sandbox) -> None:
    """For ``exemplar_free`` methods: where a client has one sample of a class, ``class_sums`` tells those in replies.

    As the harness has counted them: at least as many as lie in the replies of an exchange, in any of their tensors, to
    the bit or rounded.
    """
    if facts(sandbox.method())["exemplar_free"]:
        run = sandbox.starved
        for exchange, replies in zip(run.exchanges, run.replies, strict=True):
            there = sum(_samples_in(reply, sandbox) for reply in replies)
            told = exchange.samples_revealed or 0
            assert there <= told, (
                f"{there} training samples lie in the replies of {exchange.function}, but class_sums tells {told} of "
                "them: it must give all sums of samples of a class that a reply has"
            )


def check_broken_replies_are_kept_out(sandbox: Sandbox) -> None:
    """A client's reply that is not as declared is refused with a reason; whatever is let in, learning goes on.

    Every kind of change is shown to the door. Then there is a run in which one client sends, in turn, changes that were
    let in, or any if none were, and in which every client sends nonsense once.
    """
    run = sandbox.plain
    method = sandbox.method()
    let_in: set[tuple[str, Address]] = set()
    for call, reply in _last_replies_of(run, LIAR):
        assert said_to(method, call, reply, sandbox.stream, LIAR, sandbox.train) is None
        for lie in lies(reply, sandbox.stream, call.task, LIAR):
            if said_to(method, call, lie.reply, sandbox.stream, LIAR, sandbox.train) is None:
                let_in.add((lie.kind, lie.address))
    liars = Hostile(InProcess(), _Liar(sandbox, let_in))
    try:
        outcome = sandbox.run(transport=liars, participation=Participation(on_bad_reply="drop"))
    except Exception as error:
        raise AssertionError(
            f"a client that lies ends the run with {error!r}: declare what replies are, see docs/replies.md"
        ) from error
    for path, leaf in leaves(outcome.state, "the state"):
        assert not torch.is_tensor(leaf) or leaf.isfinite().all(), f"{path} is not finite where a client lies"
    assert outcome.scores.shape == run.scores.shape, "the classifier has another shape where a client lies"
    assert outcome.scores.isfinite().all(), "the classifier gives scores that are not finite where a client lies"


def check_import_has_no_side_effects(sandbox: Sandbox) -> None:
    """Importing the method leaves random states, folder, environment and threads alone."""
    module = type(sandbox.method()).__module__
    known = method_modules()
    together = known if module in known else (module,)  # one process is enough for all of them
    effect = effects_of_import(together, tuple(sys.path))[module]
    assert not effect, f"importing {module} has a side effect: {effect}"


LIAR = 1  # the client who sends broken replies

CHECKS: tuple[Check, ...] = (  # of each track
    check_builds_and_starts_with_a_message,
    check_runs_over_the_wire,
    check_runs_in_other_processes,
    check_leaves_messages_alone,
    check_repeats_itself,
    check_order_of_clients_does_not_matter,
    check_exact_methods_do_not_see_clients,
    check_exact_methods_reach_every_client,
    check_unlearning_is_as_never_having_learned,
    check_survives_few_clients_and_little_data,
    check_goes_on_whatever_clients_do,
    check_classifier,
    check_classifiers_are_independent,
    check_continues_from_a_checkpoint,
    check_resumes_within_tasks,
    check_learns,
    check_exemplar_free_methods_keep_no_samples,
    check_whole_numbers_add_up_behind_masks,
    check_bounded_sums_are_bounded,
    check_broken_replies_are_kept_out,
    check_exemplar_free_methods_tell_what_they_reveal,
)


@cache
def method_modules() -> tuple[str, ...]:
    """The modules of all methods that Hydra can find."""
    texts = [config_file(f"method/{name}") or "" for name in catalogue()["method"]]
    targets = [match[1] for text in texts if (match := re.search(r"^_target_: *([\w.]+)\.\w+", text, re.MULTILINE))]
    return tuple(sorted(set(targets)))


@cache
def effects_of_import(modules: tuple[str, ...], path: tuple[str, ...]) -> dict[str, str]:
    """What the import of each module changes in a new process, in words; nothing if all is well."""
    context = quick_context()
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_tell_effects, args=(there, modules, path))
    process.start()
    there.close()
    try:
        return here.recv()
    except EOFError:
        process.join()
        return dict.fromkeys(modules, f"it ends the process (exit code {process.exitcode})")


def _tell_effects(there: Connection, modules: tuple[str, ...], path: tuple[str, ...]) -> None:
    """In the new process."""
    import lightning  # noqa: F401

    import fcl_bench.losses  # noqa: F401 (what libraries do is not the method's doing)

    sys.path[:] = path
    there.send({module: _effect(module) for module in modules})


def _effect(module: str) -> str:
    before = _surroundings()
    try:
        import_module(module)
    except Exception as error:
        return f"it fails with {error!r}"
    changed = [name for name, value in _surroundings().items() if value != before[name]]
    return f"it changes the {', '.join(changed)}" if changed else ""


def _surroundings() -> dict[str, Any]:
    return {
        "working folder": os.getcwd(),
        "environment": dict(os.environ),
        "random": random.getstate(),
        "numpy.random": str(np.random.get_state()),  # noqa: NPY002
        "torch random state": torch.get_rng_state().tolist(),
        "number of threads": torch.get_num_threads(),
        "module search path": list(sys.path),
    }


class _Liar:
    """What one client sends in place of its replies; and all of them, the first time a function comes in the last task.

    But for a function that is new then: where no reply is as declared, the method is to blame.
    """

    def __init__(self, sandbox: Sandbox, let_in: set[tuple[str, Address]]):
        self.sandbox = sandbox
        self.let_in = let_in
        self.turn = 0
        self.known: set[str] = set()  # functions that came before the last task
        self.spoiled: dict[str, int] = {}  # the exchange of the last task in which they came first

    def __call__(self, call: Call, answer: Answer) -> Any:
        """The reply that the client gives."""
        if call.task < TASKS - 1:
            self.known.add(call.function)
        elif call.function in self.known and self.spoiled.setdefault(call.function, call.exchange) == call.exchange:
            return "nonsense"
        if answer.client != LIAR:
            return answer.reply
        stream = self.sandbox.stream
        every = mutations(answer.reply, foreign_class(stream, call.task, LIAR), stream.tasks[call.task].seen)
        chosen = [lie for lie in every if not self.let_in or (lie.kind, lie.address) in self.let_in]
        self.turn += 1
        return chosen[self.turn % len(chosen)].reply if chosen else answer.reply


def _last_replies_of(run: SandboxRun, client: int) -> Iterator[tuple[Call, Any]]:
    """To each function that was asked for, the last reply of a client."""
    last = {call.function: (call, replies[client]) for call, replies in zip(run.calls, run.replies, strict=True)}
    yield from last.values()


@cache
def _two_processes() -> Transport:
    """Started once, as they take seconds to import torch, and used by every sandbox."""
    processes = Processes(workers=2)
    atexit.register(processes.close)
    return processes


def _samples_in(reply: Any, sandbox: Sandbox) -> int:
    """How many training samples lie in a reply."""
    found: set[int] = set()
    for _, leaf in leaves(reply):
        found |= sandbox.samples_in(leaf) | sandbox.rounded_samples_in(leaf)
    return len(found)


def _scores(classifier: torch.nn.Module, sandbox: Sandbox) -> torch.Tensor:
    with torch.inference_mode():
        return classifier(sandbox.test)


def _assert_finite(state: Any, situation: str) -> None:
    for path, leaf in leaves(state, "the state"):
        finite = not torch.is_tensor(leaf) or leaf.isfinite().all()
        assert finite, f"{path} is not finite with {situation}"


def _assert_equal(one: Any, other: Any, complaint: str) -> None:
    assert encode(one) == encode(other), f"{complaint}: {_where(one, other)}"


def _assert_close(one: torch.Tensor, other: torch.Tensor, tolerance: float, complaint: str) -> None:
    gap = float((one.double() - other.double()).abs().max() / one.double().abs().max())
    assert gap <= tolerance, f"{complaint}: by {gap:.1e} of the largest score, more than {tolerance:.0e}"


def _where(one: Any, other: Any) -> str:
    """The first place where two states differ."""
    for (path, left), (_, right) in zip(leaves(one, "state"), leaves(other, "state"), strict=False):
        if encode(left) != encode(right):
            return path
    return "their structure"
