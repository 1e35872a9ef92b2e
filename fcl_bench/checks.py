"""The contract, executable: what every method must hold, whoever wrote it.

``check_method(make)`` in a test of your own, or ``pytest --pyargs fcl_bench.checks --method=NAME`` for a method whose
YAML Hydra can find. Each check is a function of a :class:`Trial`, a tiny separable stream on which the method runs.
A method may list checks it is known to fail in its class attribute ``known_failures``, with the reason; a listed check
must then really fail.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Literal, get_args, get_origin

import torch
from hydra.utils import get_class
from omegaconf import OmegaConf

from fcl_bench.averaging import Training
from fcl_bench.backbone import Backbone
from fcl_bench.config.compose import build, composed, parameters
from fcl_bench.federation import Participation
from fcl_bench.message import decode, encode, leaves
from fcl_bench.method import Method, facts
from fcl_bench.transport.wire import Wire
from fcl_bench.trial import CLASSES, Trial

Make = Callable[[Backbone], Method]


def check_builds_and_starts_with_a_message(trial: Trial) -> None:
    """The method has the three functions, and ``init()`` survives the way through bytes."""
    method = trial.method()
    assert isinstance(method, Method), f"{type(method).__name__} lacks one of init, learn, classifier"
    state = method.init()
    assert encode(decode(encode(state))) == encode(state), "init() is not the same after encoding and decoding"


def check_runs_over_the_wire(trial: Trial) -> None:
    """A fresh method per client call gives the same state to the bit: no hidden state, no shared references."""
    here, away = trial.run().state, trial.run(transport=Wire()).state
    assert encode(here) == encode(away), "the state differs when every message passes through bytes: " + _where(
        here, away
    )


def check_leaves_messages_alone(trial: Trial) -> None:
    """Nothing that was sent or handed over is changed in place."""
    for original, now in trial.run().kept:
        assert encode(now) == original, "a message, reply or earlier state was changed after it had been handed over"


def check_repeats_itself(trial: Trial) -> None:
    """Same seed, same state."""
    first, second = trial.run().state, trial.run().state
    assert encode(first) == encode(second), "two runs with one seed differ: " + _where(first, second)


def check_order_of_clients_does_not_matter(trial: Trial) -> None:
    """Answers in another order give the same scores, up to rounding."""
    ordered, shuffled = trial.run(), trial.run(participation=Participation(arrival="shuffled"))
    _assert_close(ordered.scores, shuffled.scores, 1e-3, "the order in which clients answer changes the scores")


def check_exact_methods_do_not_see_clients(trial: Trial) -> None:
    """For ``exact`` methods: one client's data in the hands of two give the same scores."""
    method = trial.method()
    if facts(method)["exact"]:
        one, two = trial.run(), trial.run(stream=trial.with_first_client_split())
        _assert_close(one.scores, two.scores, 1e-8, "splitting a client in two changes the scores of an exact method")


def check_survives_few_clients_and_little_data(trial: Trial) -> None:
    """Clients with one sample or none, half of the clients absent, and clients that never answer."""
    half = Participation(participation=0.5, dropout=0.3)
    for outcome in (trial.run(stream=trial.with_starved_clients()), trial.run(participation=half)):
        for path, leaf in leaves(outcome.state, "the state"):
            assert not torch.is_tensor(leaf) or leaf.isfinite().all(), (
                f"{path} is not finite with few clients or little data"
            )


def check_classifier(trial: Trial) -> None:
    """Finite scores, one per class seen so far; the state stays as it was; eval mode."""
    outcome = trial.run()
    method, before = trial.method(), encode(outcome.state)
    classifier = method.classifier(outcome.state)
    assert not any(module.training for module in classifier.modules()), "the classifier is not in eval mode"
    with torch.inference_mode():
        scores = classifier(trial.test)
    expected = (len(trial.test), trial.stream.tasks[-1].seen)
    assert scores.shape == expected, f"the classifier gives scores of shape {tuple(scores.shape)}, expected {expected}"
    assert scores.isfinite().all(), "the classifier gives scores that are not finite"
    assert encode(outcome.state) == before, "scoring changes the state"


def check_continues_from_a_checkpoint(trial: Trial) -> None:
    """Saved, loaded and continued by a fresh method after every task, a run ends as the uninterrupted one."""
    whole, pieces = trial.run().state, trial.run(reload=True).state
    assert encode(whole) == encode(pieces), "the state differs after saving and loading between tasks: " + _where(
        whole, pieces
    )


def check_learns(trial: Trial) -> None:
    """Clearly above chance when all classes arrive at once."""
    stream = trial.evenly_dealt(tasks=1)
    right = float((trial.run(stream).scores.argmax(dim=1) == trial.test_numbers(stream)).float().mean())
    assert right > 3 / CLASSES, (
        f"{right:.0%} right on {CLASSES} easily separable classes, where guessing gives {1 / CLASSES:.0%}"
    )


def check_exemplar_free_methods_keep_no_samples(trial: Trial) -> None:
    """For ``exemplar_free`` methods: no training sample is sent or stored."""
    if facts(trial.method())["exemplar_free"]:
        kept = trial.run(trial.evenly_dealt(tasks=2)).kept  # a sum over several samples shows none of them
        for path, leaf in leaves(tuple(decode(original) for original, _ in kept), "sent or stored"):
            assert not trial.holds_samples(leaf), f"an exemplar-free method lets a training sample out, in {path}"


def check_import_has_no_side_effects(trial: Trial) -> None:
    """Importing the method leaves random states, folder, environment and threads alone."""
    module = type(trial.method()).__module__
    effect = _effect_of_import(module, tuple(sys.path))
    assert not effect, f"importing {module} has a side effect: {effect}"


@cache
def _effect_of_import(module: str, path: tuple[str, ...]) -> str:
    """What a new process says that has imported a module; nothing if all is well."""
    result = subprocess.run([sys.executable, "-c", IMPORT, module, *path], capture_output=True, text=True)
    return result.stderr.strip().splitlines()[-1] if result.returncode else ""


IMPORT = """
import importlib, os, random, sys
module, sys.path[:] = sys.argv[1], sys.argv[2:]
import numpy, torch, lightning, fcl_bench.checks, fcl_bench.losses  # what libraries do is not the method's doing
def world():
    return {
        "working folder": os.getcwd(), "environment": dict(os.environ), "random": random.getstate(),
        "numpy.random": str(numpy.random.get_state()), "torch random state": torch.get_rng_state().tolist(),
        "number of threads": torch.get_num_threads(), "module search path": list(sys.path),
    }
before = world()
importlib.import_module(module)
changed = [name for name, value in world().items() if value != before[name]]
sys.exit(f"it changes the {', '.join(changed)}" if changed else 0)
"""

CHECKS: tuple[Callable[[Trial], None], ...] = (
    check_builds_and_starts_with_a_message,
    check_runs_over_the_wire,
    check_leaves_messages_alone,
    check_repeats_itself,
    check_order_of_clients_does_not_matter,
    check_exact_methods_do_not_see_clients,
    check_survives_few_clients_and_little_data,
    check_classifier,
    check_continues_from_a_checkpoint,
    check_learns,
    check_exemplar_free_methods_keep_no_samples,
    check_import_has_no_side_effects,
)


SHARED_SETTING = (  # what a setting of federated averaging, which is tested by itself, can break in a method
    check_runs_over_the_wire,
    check_survives_few_clients_and_little_data,
    check_classifier,
)


def check_method(make: Make) -> None:
    """Every check on the method that ``make(backbone)`` builds; on images too, unless it needs a frozen backbone."""
    for check in CHECKS:
        run_check(check, make, trainable=False)
    if not facts(Trial(make).method())["needs_frozen_backbone"]:
        for check in CHECKS[:-1]:  # all but that of the import, which has no track
            run_check(check, make, trainable=True)


def run_check(check: Callable[[Trial], None], make: Make, trainable: bool) -> None:
    """One check; a known failure must fail."""
    trial = Trial(make, trainable)
    reason = getattr(type(trial.method()), "known_failures", {}).get(check.__name__)
    if reason is None:
        check(trial)
        return
    try:
        check(trial)
    except Exception:
        return
    raise AssertionError(f"{check.__name__} passes, but known_failures says: {reason}")


def _assert_close(one: torch.Tensor, other: torch.Tensor, tolerance: float, complaint: str) -> None:
    gap = float((one.double() - other.double()).abs().max() / one.double().abs().max())
    assert gap <= tolerance, f"{complaint}: by {gap:.1e} of the largest score, more than {tolerance:.0e}"


def _where(one: Any, other: Any) -> str:
    """The first place where two states differ."""
    for (path, left), (_, right) in zip(leaves(one, "state"), leaves(other, "state"), strict=False):
        if encode(left) != encode(right):
            return path
    return "their structure"


def pytest_generate_tests(metafunc: Any) -> None:
    """Collected by pytest when this module is named: every check, for every method asked for by ``--method``."""
    from fcl_bench.config.catalogue import catalogue

    names = metafunc.config.getoption("--method") or sorted(catalogue()["method"])
    cases = [(words, track, check) for name in names for words in variants(name) for track, check in trials(words)]
    ids = [f"{' '.join(words)}-{track}-{check.__name__.removeprefix('check_')}" for words, track, check in cases]
    metafunc.parametrize(("words", "track", "check"), cases, ids=ids)


def variants(name: str) -> Iterator[tuple[str, ...]]:
    """The method as its YAML has it, and with every other choice of each setting that has named choices."""
    yield (f"method={name}",)
    node = composed(f"method={name}").method
    for setting, annotation in parameters(get_class(node["_target_"])):
        for choice in get_args(annotation) if get_origin(annotation) is Literal else ():
            if choice != node[setting]:
                yield f"method={name}", f"method.{setting}={choice}"


def trials(words: tuple[str, ...]) -> Iterator[tuple[str, Callable[[Trial], None]]]:
    """The tracks on which a method runs, and the checks there; a variant meets those that its choice can matter to."""
    if len(words) > 1:
        setting = words[1].partition("=")[0].removeprefix("method.")
        for check in SHARED_SETTING if setting in Training.__annotations__ else CHECKS[:-1]:
            yield "frozen", check
        return
    frozen_only = facts(Trial(configured(words)).method())["needs_frozen_backbone"]
    yield from (("frozen", check) for check in CHECKS)
    yield from (("end_to_end", check) for check in (() if frozen_only else CHECKS[:-1]))  # an import has no track


def configured(words: tuple[str, ...]) -> Make:
    """The method of a configuration, with a few short rounds where it has rounds."""
    node = composed(*words).method
    few = {key: value for key, value in {"rounds": 6, "epochs": 5, "lr": 0.1}.items() if key in node}
    short: Any = OmegaConf.merge(node, few)
    return lambda backbone: build(short, backbone)


def test_contract(words: tuple[str, ...], track: str, check: Callable[[Trial], None]) -> None:
    """One check of one configured method on one track."""
    run_check(check, configured(words), trainable=track == "end_to_end")
