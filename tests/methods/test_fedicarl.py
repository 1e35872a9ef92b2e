"""FediCaRL: herding, exemplars, means and the two classifiers."""

import making
import numpy as np
import pytest
import torch
from conftest import Command, course, read_json
from making import BACKBONE, RANDOM, sgd, with_head
from torch import nn
from torch.nn.functional import normalize

from fcl_bench import Backbone, Network, Samples, snapshot
from fcl_bench.methods.fedicarl import FediCaRL, Rehearsal, herded, whole_shares
from fcl_bench.partition import Dirichlet
from fcl_bench.temporal import SiBlurry

LABELS = np.arange(240) % 6
INPUTS = torch.randn(240, 5, generator=RANDOM) + 2 * torch.randn(6, 5, generator=RANDOM)[LABELS]


def make(backbone=BACKBONE, **settings):
    return making.make(FediCaRL, backbone, **{"memory_size": 18, "lr": 0.01} | settings)


def learned(method):
    """With many samples of classes that return."""
    return course(method, INPUTS, LABELS, SiBlurry(3, blurry_ratio=0.4), Dirichlet(3, alpha=0.5))


def assert_greedy(features, chosen):
    """Herding as the paper writes it: of all samples that are left, none would bring the mean nearer to that of all."""
    goal = features.mean(dim=0)
    for count, choice in enumerate(chosen):
        before = chosen[:count]
        gaps = {
            place: float((goal - features[[*before, place]].mean(dim=0)).norm())
            for place in range(len(features))
            if place not in before
        }
        assert gaps[choice] == pytest.approx(min(gaps.values()), rel=1e-9)  # two samples may be equally near


@pytest.mark.parametrize("samples", [1, 2, 13, 40])
def test_herding_is_greedy_without_repetition_and_its_order_is_a_ranking(samples):
    features = normalize(torch.randn(samples, 8, generator=RANDOM, dtype=torch.float64))
    positions = torch.arange(100, 100 + samples)
    everything = torch.full((100 + samples, 8), torch.nan, dtype=torch.float64)
    everything[100:] = features
    chosen = herded(everything, positions, 12)
    assert len(chosen) == min(12, samples)
    assert_greedy(features, (chosen - 100).tolist())
    for number in range(min(12, samples) + 1):
        assert torch.equal(herded(everything, positions, number), chosen[:number])


def test_identical_samples_are_still_chosen_once():
    assert sorted(herded(torch.ones(4, 3), torch.arange(4), 4).tolist()) == [0, 1, 2, 3]


def rows(samples):
    return [tuple(row) for row in samples.inputs.tolist()]


@pytest.mark.parametrize("share", ["whole", "equal"])
def test_classes_share_the_budget_and_a_class_that_returns_is_herded_anew(share):
    done = learned(make(share=share))
    returned = False
    for task in range(3):
        for client, memory in done.memories[task].items():
            exemplars, before = memory["exemplars"], done.memories[task - 1].get(client, {}) if task else {}
            classes, counts = exemplars.labels.unique(return_counts=True)
            assert counts.sum() <= 18
            if share == "equal":
                assert counts.max() <= 18 // len(classes)
            new = {tuple(row) for row in INPUTS[done.stream.indices(task, client)].tolist()}
            held = set(done.stream.number[LABELS[done.stream.indices(task, client)]].tolist())
            for label in classes.tolist():
                if "exemplars" not in before or label not in before["exemplars"].labels:
                    continue
                now, old = (rows(Samples(*each[each.labels == label])) for each in (exemplars, before["exemplars"]))
                if label in held:
                    assert set(now) <= set(old) | new
                    returned |= bool(set(now) & new)
                else:
                    assert now == old[: len(now)]  # a prefix: herding order is a ranking
    assert returned


def test_the_whole_budget_is_used_where_there_are_samples_enough():
    """Each task's pool is what was kept before and what is new; all of it, or 18, is kept after."""
    done = learned(make())
    full = 0
    for task in range(3):
        for client, memory in done.memories[task].items():
            before = done.memories[task - 1].get(client, {}) if task else {}
            kept = len(before["exemplars"]) if before else 0
            assert len(memory["exemplars"]) == min(18, kept + len(done.stream.indices(task, client)))
            full += len(memory["exemplars"]) == 18
    assert full >= 6


@pytest.mark.parametrize(
    ("counts", "budget", "expected"),
    [
        ([50, 50, 50], 300, [50, 50, 50]),  # nothing to choose
        ([90, 90, 90], 10, [4, 3, 3]),  # the rest for the first
        ([90, 90, 90, 90], 11, [3, 3, 3, 2]),
        ([1, 90, 2, 90], 20, [1, 9, 2, 8]),  # small classes leave their part to the others
        ([90, 1, 4, 90], 13, [4, 1, 4, 4]),
        ([5, 5, 5], 2, [1, 1, 0]),  # more classes than places
    ],
)
def test_shares_by_hand(counts, budget, expected):
    assert whole_shares(torch.tensor(counts), budget).tolist() == expected


def test_shares_are_as_equal_as_samples_allow():
    """A place moved from any class to any other one would not make the two more equal."""
    for _ in range(200):
        counts = torch.randint(1, 30, (int(torch.randint(1, 12, ())),))
        budget = int(torch.randint(1, 150, ()))
        shares = whole_shares(counts, budget)
        assert shares.sum() == min(budget, counts.sum())
        assert (shares <= counts).all()
        waiting = shares[shares < counts]  # classes that would take more
        assert len(waiting) == 0 or shares.max() <= waiting.min() + 1


def test_the_means_are_those_of_all_exemplars_and_decide_by_the_nearest():
    method = make()
    done = learned(method)
    state = done.states[-1]
    totals, counts = torch.zeros(6, 5, dtype=torch.float64), torch.zeros(6)
    for memory in done.memories[-1].values():
        for row, label in zip(memory["exemplars"].inputs, memory["exemplars"].labels, strict=True):
            totals[label] += row.double() / row.double().norm()
            counts[label] += 1
    torch.testing.assert_close(state.means.totals, totals)
    assert state.means.counts.tolist() == counts.tolist()
    assert (counts > 0).all()
    means = totals / totals.norm(dim=1, keepdim=True)
    distances = torch.cdist(normalize(INPUTS.double()), means)
    assert torch.equal(method.classifier(state)(INPUTS).argmax(dim=1), distances.argmin(dim=1))


def test_both_classifiers_are_in_the_record(tiny: Command):
    for predict, other in (("nearest_mean", "linear"), ("linear", "nearest_mean")):
        done = tiny("method=fedicarl", "budget.rounds=2", f"method.predict={predict}")
        assert done.code == 0, done.err
        found = done.result["other_classifiers"]
        assert list(found) == [other]
        stored = np.load(done.folder / "predictions.npz")
        whole = 100 * np.mean(stored[f"predictions_{other}"] == stored["targets"], axis=1)
        assert found[other]["curves"]["whole_accuracy"] == pytest.approx(whole.tolist())
        assert f"average accuracy A_T (%), {other.replace('_', ' ')} classifier" in done.out
        mine = 100 * np.mean(stored["predictions"] == stored["targets"], axis=1)
        assert done.result["curves"]["whole_accuracy"] == pytest.approx(mine.tolist())
        assert not np.array_equal(stored["predictions"], stored[f"predictions_{other}"])


def test_asking_for_one_classifier_leaves_the_other_as_it_was():
    method = make()
    first, last = learned(method).states[2::6]
    kept = [method.classifier(first), *method.other_classifiers(first).values()]
    before = [classifier(INPUTS).detach() for classifier in kept]
    method.classifier(last)
    method.other_classifiers(last)
    assert all(torch.equal(classifier(INPUTS), scores) for classifier, scores in zip(kept, before, strict=True))


def test_the_bytes_of_the_exemplars_are_in_the_record(tiny: Command):
    done = tiny("method=fedicarl", "budget.rounds=1", "method.memory_size=12")
    exemplar, weights = 16 * 4 + 8, 6 * (16 + 1) * 4  # features and label; head
    stored = done.result["metrics"]["stored_bytes"]
    assert stored <= 3 * (12 * exemplar + weights)
    assert stored > 3 * weights / 2


def test_sigmoid_loss_by_hand():
    student = with_head(Network(Backbone(2)), 3, seed=3)
    teacher = with_head(Network(Backbone(2)), 1, seed=1)
    loss = Rehearsal(student, sgd, sigmoid=True, weight=1.0, temperature=2.0)
    loss.load_teacher(snapshot(teacher))
    inputs, labels = torch.randn(2, 2), torch.tensor([0, 2])
    p, t = student(inputs).sigmoid().detach(), teacher(inputs).sigmoid()[:, 0].detach()
    total = 0.0
    for sample, wanted in enumerate(([t[0], 0, 0], [t[1], 0, 1])):  # the teacher speaks for class 0, labels for others
        for column, target in enumerate(wanted):
            total -= target * p[sample, column].log() + (1 - target) * (1 - p[sample, column]).log()
    assert loss.training_step((inputs, labels), 0).item() == pytest.approx(float(total) / 2, rel=1e-5)


def test_the_published_variant_draws_from_all_old_samples_once_per_task():
    method = make(variant="target_repo", memory_size=10)
    done = learned(method)
    for task in (1, 2):
        for client, memory in done.memories[task].items():
            old = np.concatenate([done.stream.indices(earlier, client) for earlier in range(task)])
            past = {tuple(row) for row in INPUTS[old].tolist()}
            assert len(memory["exemplars"]) == min(10, len(old))
            assert set(rows(memory["exemplars"])) <= past
            assert len(set(rows(memory["exemplars"]))) == len(memory["exemplars"])
    one, two = (set(rows(done.memories[task][0]["exemplars"])) for task in (1, 2))
    assert one != two
    assert isinstance(method.classifier(done.states[-1]), Network)
    assert method.other_classifiers(done.states[-1]) == {}


def test_the_budget_is_300_or_as_published():
    assert make(memory_size=None).memory_size == 300
    assert make(memory_size=None, variant="target_repo").memory_size == 2000


def test_a_scope_of_the_task_is_widened_by_the_classes_of_the_exemplars():
    done = learned(make(ce_scope="task"))
    assert all(value.isfinite().all() for value in done.states[-1].weights.values())


def test_features_of_a_trained_backbone_decide_herding_and_means():
    def build():
        torch.manual_seed(3)
        return nn.Linear(5, 4)

    done = learned(make(Backbone(4, True, build), rounds=1, epochs=1))
    backbone = nn.Linear(5, 4)
    state = done.states[-1]
    backbone.load_state_dict({name: state.weights[f"backbone.{name}"] for name in ("weight", "bias")})
    totals = torch.zeros(6, 4, dtype=torch.float64)
    for memory in done.memories[-1].values():
        features = normalize(backbone(memory["exemplars"].inputs).detach().double())
        totals.index_add_(0, memory["exemplars"].labels, features)
    torch.testing.assert_close(state.means.totals, totals)


def test_the_record_is_strict_json(tiny: Command):
    done = tiny("method=fedicarl", "budget.rounds=1")
    assert read_json(done.folder / "result.json")["method"] == "fedicarl"
