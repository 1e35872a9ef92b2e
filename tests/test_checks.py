"""The contract's own tests: a sound toy method passes every check, and for every check a broken one fails it."""

import os
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Annotated

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fcl_bench.checks as contract
from fcl_bench import ByClass, ClassSums, Kind, Range, Scores, Shape, Total, check_method, configured
from fcl_bench.checks import Sandbox, rules, run_check
from fcl_bench.checks.sandbox import SEED, little_stages
from fcl_bench.checks.variants import checks_of, variants
from fcl_bench.checks.variants import sandbox as sandbox_of
from fcl_bench.decoding import MessageError


@dataclass(frozen=True)
class Sums:
    totals: Annotated[Tensor, Shape("classes", "features"), Kind(torch.float64), ByClass()]
    counts: Annotated[Tensor, Shape("classes"), Kind(torch.float64), Range(0), Total("samples"), ByClass()]


class NearestMean:
    """Scores by the dot product with class means: exact, and small enough to break in many ways."""

    exact = exemplar_free = needs_frozen_backbone = True
    message_classes: tuple[type, ...] = (Sums,)

    def __init__(self, backbone):
        self.features = backbone.features

    def init(self):
        return Sums(torch.zeros(0, self.features, dtype=torch.float64), torch.zeros(0, dtype=torch.float64))

    def learn(self, state, task, clients):
        missing = task.seen - len(state.counts)
        totals = torch.cat([state.totals, state.totals.new_zeros(missing, self.features)])
        counts = torch.cat([state.counts, state.counts.new_zeros(missing)])
        for reply in clients.everyone.map(self.summarise, task.seen):
            totals, counts = totals + reply.totals, counts + reply.counts
        yield Sums(totals, counts)

    def summarise(self, client, classes) -> Sums:
        totals, counts = (
            torch.zeros(classes, self.features, dtype=torch.float64),
            torch.zeros(classes, dtype=torch.float64),
        )
        for inputs, labels in client.data.batches(16):
            totals.index_add_(0, labels, inputs.double())
            counts.index_add_(0, labels, torch.ones(len(labels), dtype=torch.float64))
        return Sums(totals, counts)

    def class_sums(self, reply):
        return ClassSums(reply.totals, resolution=0.0)

    def unlearn(self, state, forgotten, classes):
        totals, counts = state.totals.clone(), state.counts.clone()
        inputs, labels = forgotten.tensors
        totals.index_add_(0, labels, -inputs.double())
        counts.index_add_(0, labels, -torch.ones(len(labels), dtype=torch.float64))
        return Sums(totals[classes], counts[classes])

    def classifier(self, state):
        return Scores((state.totals / state.counts.clamp(min=1)[:, None]).T).eval()


class NoClassifier:
    def __init__(self, backbone):
        pass

    def init(self):
        return Sums(torch.zeros(0), torch.zeros(0))

    def learn(self, state, task, clients):
        yield state


class ListInState(NearestMean):
    def init(self):
        return {"not a message": [1, 2]}


class DeclaresNothing(NearestMean):
    message_classes = ()


class CountsCalls(NearestMean):
    """A client that sees what the call of another one left behind."""

    calls = 0

    def summarise(self, client, classes):
        self.calls += 1
        sums = super().summarise(client, classes)
        return Sums(sums.totals * self.calls, sums.counts)


class KeepsProgress(NearestMean):
    """Progress in the object instead of the state."""

    def learn(self, state, task, clients):
        self.tasks = getattr(self, "tasks", 0) + 1
        for after in super().learn(state, task, clients):
            yield Sums(after.totals * self.tasks, after.counts)


class ChangesMessages(NearestMean):
    """Adds to the state in place."""

    def learn(self, state, task, clients):
        for after in super().learn(state, task, clients):
            yield after
            after.totals.add_(1)
            yield replace(after)


class Unseeded(NearestMean):
    """Randomness from outside."""

    def learn(self, state, task, clients):
        for after in super().learn(state, task, clients):
            yield Sums(after.totals + np.random.default_rng().normal(), after.counts)


class Largest(NearestMean):
    """Whole numbers of which the server keeps the largest: it would need to see them one by one."""

    adds_whole_numbers = True

    def learn(self, state, task, clients):
        for after in super().learn(state, task, clients):
            replies = [reply.totals for reply in clients.everyone.map(self.rounded, task.seen)]
            yield Sums(after.totals, torch.stack(replies).amax(dim=(0, 2)).double())

    def summarise(self, client, classes):
        sums = super().summarise(client, classes)
        return Sums((2**20 * sums.totals).round().long(), sums.counts.long())

    rounded = summarise


class CountsForTwo(NearestMean):
    """Samples are scaled down to the clip, and each then counts twice."""

    has_bounded_sums = True

    def summarise(self, client, classes):
        totals = torch.zeros(classes, self.features, dtype=torch.float64)
        inputs, labels = client.data.tensors
        rows = inputs.double()
        if client.clip is not None:
            rows = 2 * client.clip * torch.nn.functional.normalize(rows)
        return Sums(totals.index_add_(0, labels, rows), labels.bincount(minlength=classes).double())

    def sensitivity(self, clip):
        return (clip**2 + 1) ** 0.5


class LastClientWins(NearestMean):
    """Takes the model of whoever answers last."""

    def learn(self, state, task, clients):
        for reply in clients.everyone.map(self.summarise, task.seen):
            last = reply
        yield last


class PlainMean(NearestMean):
    """Averages over clients, however much data they have, and calls that exact."""

    def learn(self, state, task, clients):
        replies = list(clients.everyone.map(self.summarise, task.seen))
        means = [reply.totals / reply.counts.clamp(min=1)[:, None] for reply in replies]
        yield Sums(sum(means), torch.ones(task.seen, dtype=torch.float64))


class AsksAFew(NearestMean):
    """Once per task, but not everybody."""

    def learn(self, state, task, clients):
        return super().learn(state, task, SimpleNamespace(everyone=clients))


class DividesByAnswers(NearestMean):
    """Adds the mean of the answers in each task, of which there may be none."""

    def learn(self, state, task, clients):
        totals = torch.cat([state.totals, state.totals.new_zeros(task.seen - len(state.totals), self.features)])
        replies = list(clients.everyone.map(self.summarise, task.seen))
        mean = sum((reply.totals for reply in replies), start=torch.zeros_like(totals)) / len(replies)
        yield Sums(totals + mean, torch.ones(task.seen, dtype=torch.float64))


class ForgetsNothing(NearestMean):
    """Leaves the classes out, and nothing else."""

    def unlearn(self, state, forgotten, classes):
        return Sums(state.totals[classes], state.counts[classes])


class KeepsForgottenClasses(NearestMean):
    """Numbers classes as before."""

    def unlearn(self, state, forgotten, classes):
        return super().unlearn(state, forgotten, torch.arange(len(state.counts)))


class ForgetsInPlace(NearestMean):
    def unlearn(self, state, forgotten, classes):
        state.totals.mul_(2)
        return state


class CallsItsSumsWhole(NearestMean):
    """Right scores, but not the state of a run without the samples, to the bit."""

    adds_whole_numbers = True

    def unlearn(self, state, forgotten, classes):
        rest = super().unlearn(state, forgotten, classes)
        return Sums(2 * rest.totals, 2 * rest.counts)


class DividesByNothing(NearestMean):
    def learn(self, state, task, clients):
        for after in super().learn(state, task, clients):
            shares = [reply.totals / reply.counts.sum() for reply in clients.map(self.summarise, task.seen)]
            yield Sums(sum(shares), after.counts)


class TrustsReplies(NearestMean):
    """Does not say what clients reply."""

    def summarise(self, client, classes):
        return super().summarise(client, classes)


class BelievesCounts(NearestMean):
    """Divides by what a client may say is nothing."""

    def learn(self, state, task, clients):
        for after in super().learn(state, task, clients):
            weights = [1 / reply.counts.sum() for reply in clients.map(self.summarise, task.seen) if reply.totals.any()]
            yield Sums(after.totals * sum(weights, start=torch.ones(())), after.counts)


class InTrainMode(NearestMean):
    def classifier(self, state):
        return super().classifier(state).train()


class TooManyScores(NearestMean):
    def classifier(self, state):
        return nn.Sequential(super().classifier(state), nn.ConstantPad1d((0, 1), 0.0)).eval()


class ScoringChangesState(NearestMean):
    def classifier(self, state):
        state.totals.mul_(2)
        return super().classifier(state)


class LearnsNothing(NearestMean):
    def classifier(self, state):
        return Scores(torch.zeros(self.features, len(state.counts), dtype=torch.float64)).eval()


@dataclass(frozen=True)
class Leak:
    totals: Tensor
    counts: Tensor
    exemplar: Tensor


class SendsASample(NearestMean):
    message_classes = (Sums, Leak)

    def summarise(self, client, classes):
        sums = super().summarise(client, classes)
        return Leak(sums.totals, sums.counts, client.data.tensors[0][:1])


class StoresASample(NearestMean):
    def summarise(self, client, classes):
        client.memory["exemplars"] = {"first": client.data.tensors[0][:1]}
        return super().summarise(client, classes)


class HidesASample(NearestMean):
    """Sends sums, and says that they tell nothing."""

    def class_sums(self, reply):
        return None


class HidesARoundedSample(HidesASample):
    """The same with sums of whole numbers."""

    def summarise(self, client, classes):
        sums = super().summarise(client, classes)
        return Sums((sums.totals * 1000).round().int(), sums.counts)


class HidesADirection(HidesASample):
    """The same with sums of features of length 1."""

    def summarise(self, client, classes):
        sums = super().summarise(client, classes)
        return Sums(torch.nn.functional.normalize(sums.totals), sums.counts)


class DependsOnTheProcess(NearestMean):
    """Works as long as clients live with the server."""

    def summarise(self, client, classes):
        sums = super().summarise(client, classes)
        return Sums(sums.totals + os.getpid(), sums.counts)


class OneClassifierForAll(NearestMean):
    """Hands out its own module, loaded with the state that was asked for last."""

    def __init__(self, backbone):
        super().__init__(backbone)
        self.module = Scores(torch.zeros(self.features, 0))

    def classifier(self, state):
        self.module.weights = super().classifier(state).weights
        return self.module.eval()


class BeginsTasksAgain(NearestMean):
    """Two states per task, both handed out again when the task is resumed after the first."""

    resumes_within_tasks = True

    def learn(self, state, task, clients):
        for state in super().learn(state, task, clients):
            yield state
        yield state


class RemembersTheFirstState(NearestMean):
    """The second state of a task needs more than the first: a number that no state has."""

    resumes_within_tasks = True

    def learn(self, state, task, clients):
        scale = 1.0
        if task.yielded == 0:
            scale = 2.0
            for state in super().learn(state, task, clients):
                yield state
        if task.yielded < 2:
            yield Sums(state.totals * scale, state.counts)


HIDDEN = r"^\d+ training samples lie in the replies of summarise, but class_sums tells 0 of them: it must give all sums"
BROKEN = [
    (NoClassifier, rules.check_builds_and_starts_with_a_message, "lacks one of init, learn, classifier"),
    (DeclaresNothing, rules.check_builds_and_starts_with_a_message, "'test_checks:Sums' is not declared"),
    (ListInState, rules.check_builds_and_starts_with_a_message, "but got list"),
    (
        CountsCalls,
        rules.check_runs_over_the_wire,
        "differs when every message passes through bytes: state.totals",
    ),
    (
        DependsOnTheProcess,
        rules.check_runs_in_other_processes,
        "differs when clients live in other processes: state.totals",
    ),
    (ChangesMessages, rules.check_leaves_messages_alone, "changed after it had been handed over"),
    (Unseeded, rules.check_repeats_itself, "two runs with one seed differ: state.totals"),
    (LastClientWins, rules.check_order_of_clients_does_not_matter, "order in which clients answer changes the scores"),
    (PlainMean, rules.check_exact_methods_do_not_see_clients, "splitting a client in two changes the scores"),
    (AsksAFew, rules.check_exact_methods_reach_every_client, "an exact method has not heard of all clients"),
    (
        DividesByAnswers,
        rules.check_goes_on_whatever_clients_do,
        "the state.totals is not finite with few answers",
    ),
    (
        ForgetsNothing,
        rules.check_unlearning_is_as_never_having_learned,
        "after unlearning a client, the model is not that of a run without these samples: by ",
    ),
    (KeepsForgottenClasses, rules.check_unlearning_is_as_never_having_learned, "a run without these samples"),
    (ForgetsInPlace, rules.check_unlearning_is_as_never_having_learned, "unlearning changes the state"),
    (
        CallsItsSumsWhole,
        rules.check_unlearning_is_as_never_having_learned,
        r"a run without these samples: state\.totals",
    ),
    (DividesByNothing, rules.check_survives_few_clients_and_little_data, "the state.totals is not finite"),
    (InTrainMode, rules.check_classifier, "not in eval mode"),
    (TooManyScores, rules.check_classifier, r"scores of shape \(60, 7\), expected \(60, 6\)"),
    (ScoringChangesState, rules.check_classifier, "scoring changes the state"),
    (OneClassifierForAll, rules.check_classifiers_are_independent, r"classifier\(\) must give a copy"),
    (BeginsTasksAgain, rules.check_resumes_within_tasks, r"learn does not go on after task\.yielded states"),
    (
        RemembersTheFirstState,
        rules.check_resumes_within_tasks,
        "differs after saving and loading within a task: state.totals",
    ),
    (
        KeepsProgress,
        rules.check_continues_from_a_checkpoint,
        "differs after saving and loading between tasks: state.totals",
    ),
    (LearnsNothing, rules.check_learns, "17% right on 6 easily separable classes, where guessing gives 17%"),
    (SendsASample, rules.check_exemplar_free_methods_keep_no_samples, "lets a training sample out, in .*exemplar"),
    (
        StoresASample,
        rules.check_exemplar_free_methods_keep_no_samples,
        r"lets a training sample out, in .*\['first'\]",
    ),
    (
        Largest,
        rules.check_whole_numbers_add_up_behind_masks,
        r"the server is given the sum of all replies: state\.counts",
    ),
    (
        CountsForTwo,
        rules.check_bounded_sums_are_bounded,
        r"a sample moves the reply of summarise by 1\.41 with a clip of 0\.5, more than its sensitivity 1\.12",
    ),
    (TrustsReplies, rules.check_broken_replies_are_kept_out, "a client that lies ends the run with .*: declare what"),
    (BelievesCounts, rules.check_broken_replies_are_kept_out, "the state.totals is not finite where a client lies"),
    (HidesASample, rules.check_exemplar_free_methods_tell_what_they_reveal, HIDDEN),
    (HidesARoundedSample, rules.check_exemplar_free_methods_tell_what_they_reveal, HIDDEN),
    (HidesADirection, rules.check_exemplar_free_methods_tell_what_they_reveal, HIDDEN),
]


@pytest.mark.parametrize(("method", "check", "complaint"), BROKEN, ids=lambda value: getattr(value, "__name__", ""))
def test_a_broken_method_fails_its_check(method, check, complaint):
    with pytest.raises((AssertionError, TypeError, MessageError), match=complaint):
        run_check(check, Sandbox(method))


def test_an_import_with_side_effects_fails_its_check(tmp_path, monkeypatch):
    (tmp_path / "rude.py").write_text(
        "import torch\ntorch.manual_seed(0)\nfrom test_checks import NearestMean\nclass Rude(NearestMean): pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    from rude import Rude

    with pytest.raises(AssertionError, match="importing rude has a side effect: it changes the torch random state"):
        run_check(rules.check_import_has_no_side_effects, Sandbox(Rude))


def test_every_check_has_a_method_that_fails_it():
    assert {check for _, check, _ in BROKEN} == set(rules.CHECKS)


def test_a_sound_method_passes_all_checks():
    check_method(NearestMean)


def test_a_rough_federation_has_faults_of_every_kind():
    accounts = Sandbox(configured("method=fedncm")).run(participation=rules.ROUGH).exchanges
    assert accounts[0].asked > 0 == accounts[0].answered
    assert min(each.asked for each in accounts) < 4
    for name in ("lost", "late", "double"):
        assert sum(getattr(each, name) for each in accounts) > 0, name
    forgetting = [rules.ROUGH.forgetting(SEED, task, 4) for task in range(3)]
    assert forgetting[2] & set(rules.ROUGH.there(SEED, 1, 4, 3).tolist())


def test_a_method_may_be_made_by_a_lambda():
    """It has no name by which another process could find it."""
    run_check(rules.check_runs_in_other_processes, Sandbox(lambda backbone: NearestMean(backbone)))


def test_a_known_failure_must_fail():
    class Honest(LearnsNothing):
        known_failures = {"check_learns": "it never looks at the data"}

    class Boastful(NearestMean):
        known_failures = {"check_learns": "it never looks at the data"}

    run_check(rules.check_learns, Sandbox(Honest))
    with pytest.raises(
        AssertionError, match="check_learns passes, but known_failures says: it never looks at the data"
    ):
        run_check(rules.check_learns, Sandbox(Boastful))


def test_variants_that_need_images_are_checked_on_a_frozen_network_that_suits_them():
    tracks = {}
    for words in variants("fedmgp"):
        tracks[words[-1]] = {track for track, _ in checks_of(words)}
    assert tracks["method=fedmgp"] == {"frozen"}
    assert tracks["method.place=stages"] == {"frozen_convolutions"}
    assert tracks["method.place=tokens"] == {"frozen_transformer"}
    assert tracks["method.fusion=distill"] == {"frozen"}


def test_settings_of_yes_or_no_are_checked_both_ways_with_the_samples_they_need():
    words = ("method=fedcbc", "method.look_ahead=True")
    assert words in variants("fedcbc")
    assert ("method=fedmgp", "method.task_mask=True") in variants("fedmgp")
    assert len(sandbox_of(words, "frozen").stream.reserved) == 5 * 6


def test_clients_hold_images_for_a_frozen_network_and_public_samples_are_there_for_those_who_need_them():
    class Needy(NearestMean):
        needs_public_samples = True

    seen = []
    sandbox = Sandbox(lambda backbone: seen.append(backbone) or Needy(backbone), network=little_stages)
    assert sandbox.train.shape[1:] == (3, 8, 8)
    assert len(sandbox.stream.reserved) == 5 * 6
    assert len(Sandbox(NearestMean).stream.reserved) == 0
    backbone = seen[0]
    assert not backbone.trainable
    assert backbone.build()(sandbox.train).shape == (240, backbone.features)
    assert not any(weight.requires_grad for weight in backbone.build().parameters())


def test_methods_that_train_networks_are_checked_on_images_too(monkeypatch):
    seen = []

    class Trainable(NearestMean):
        needs_frozen_backbone = False

    monkeypatch.setattr(contract, "CHECKS", [lambda sandbox: seen.append(sandbox.trainable)])
    check_method(Trainable)
    check_method(NearestMean)
    assert seen == [False, True, False]
