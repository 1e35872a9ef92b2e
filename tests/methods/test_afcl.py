"""AFCL against joint ridge regression, computed here by numpy and by scikit-learn from the pooled data."""

import warnings
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import course
from making import make
from sklearn.datasets import load_digits
from sklearn.linear_model import Ridge

from fcl_bench import Backbone, ClientData, ConfigError, UserError
from fcl_bench.backbone import InputSpec
from fcl_bench.config.compose import composed
from fcl_bench.evidence import hashes
from fcl_bench.federation import Participation
from fcl_bench.methods.afcl import AFCL, Knowledge, Solution
from fcl_bench.partition import Dirichlet
from fcl_bench.run.scenario import materialise, plan
from fcl_bench.temporal import SiBlurry

images, LABELS = load_digits(return_X_y=True)
FEATURES = torch.from_numpy(images / 16).float()  # (1797, 64)
TRAIN = np.arange(len(LABELS)) % 5 != 0


def learned(
    tasks=5, alpha=0.1, clients=5, who=None, features=FEATURES[TRAIN], labels=LABELS[TRAIN], kind=AFCL, **settings
):
    """The stream, AFCL's last state and AFCL."""
    method = make(kind, Backbone(features.shape[1]), **{"arithmetic": "float64"} | settings)
    done = course(method, features, labels, SiBlurry(tasks), Dirichlet(clients, alpha=alpha), who)
    return done.stream, done.states[-1], method


def weights_of(method, state):
    return method.classifier(state).weights


def joint_ridge(stream, features=FEATURES[TRAIN], labels=LABELS[TRAIN], gamma=1.0):
    """The textbook solution on all data at once, columns in order of registration."""
    rows, targets = features.double().numpy(), np.eye(len(stream.order))[stream.number[labels]]
    return np.linalg.solve(rows.T @ rows + gamma * np.eye(rows.shape[1]), rows.T @ targets)


def relative_error(weights, expected):
    return np.linalg.norm(weights.numpy() - expected) / np.linalg.norm(expected)


def assert_equals_joint(stream, state, method, gamma=1.0):
    expected = joint_ridge(stream, gamma=gamma)
    assert relative_error(weights_of(method, state), expected) < 1e-8
    predicted = method.classifier(state)(FEATURES[~TRAIN]).argmax(dim=1).numpy()
    assert np.array_equal(predicted, (FEATURES[~TRAIN].double().numpy() @ expected).argmax(axis=1))


@pytest.mark.parametrize("form", ["statistics", "recursive"])
@pytest.mark.parametrize(("clients", "alpha"), [*product([1, 5], [0.05, 0.1, 1, 100]), (100, 0.05), (100, 100)])
@pytest.mark.parametrize("tasks", [1, 5, 10])
def test_the_weights_are_those_of_joint_ridge_regression(tasks, alpha, clients, form):
    assert_equals_joint(*learned(tasks, alpha, clients, form=form))


@pytest.mark.parametrize("form", ["statistics", "recursive"])
def test_also_with_a_thousand_clients_of_which_many_have_no_data(form):
    stream, state, method = learned(tasks=5, clients=1000, form=form)
    assert (stream.sizes == 0).any()
    assert_equals_joint(stream, state, method)


@pytest.fixture(scope="module")
def scenario(digits_run, cache_dir):
    config = composed("method=afcl", f"cache_dir={cache_dir}")
    return materialise(config, plan(config), lambda what: lambda done, total: None)


@pytest.mark.parametrize("form", ["statistics", "recursive"])
@pytest.mark.parametrize(("tasks", "clients"), [(1, 25), (5, 5)])
def test_also_on_the_1280_features_of_the_default_backbone(scenario, tasks, clients, form):
    labels = scenario.dataset.train.labels
    stream, state, method = learned(tasks, clients=clients, features=scenario.train.tensor, labels=labels, form=form)
    expected = joint_ridge(stream, scenario.train.tensor, labels)
    assert expected.shape == (1280, 10)
    assert relative_error(weights_of(method, state), expected) < 1e-8
    predicted = method.classifier(state)(scenario.test.tensor).argmax(dim=1).numpy()
    assert np.array_equal(predicted, (scenario.test.tensor.double().numpy() @ expected).argmax(axis=1))


@pytest.mark.parametrize("form", ["statistics", "recursive"])
def test_the_order_in_which_clients_answer_does_not_matter(form):
    assert_equals_joint(*learned(who=Participation(arrival="shuffled"), form=form))


@pytest.mark.parametrize("form", ["statistics", "recursive"])
def test_losing_clients_without_data_changes_nothing(form):
    lost = []

    class WithoutIdle(AFCL):
        def learn(self, state, task, clients):
            def heard(function, *message):
                replies = clients.everyone.map(function, *message)
                for registration, reply in zip(task.registrations, replies, strict=True):
                    if registration.known or registration.new:
                        yield reply
                    else:
                        lost.append(registration.client)

            return super().learn(state, task, SimpleNamespace(everyone=SimpleNamespace(map=heard)))

    stream, state, method = learned(10, 0.05, clients=200, kind=WithoutIdle, form=form)
    assert len(lost) == (stream.sizes == 0).sum() > 0
    assert_equals_joint(stream, state, method)


@pytest.mark.parametrize("gamma", [1e-3, 1.0, 100.0])
def test_both_forms_follow_gamma_and_scikit_learn_agrees(gamma):
    for form in ("statistics", "recursive"):
        stream, state, method = learned(gamma=gamma, form=form)
        assert_equals_joint(stream, state, method, gamma)
        targets = np.eye(10)[stream.number[LABELS[TRAIN]]]
        sklearn = Ridge(alpha=gamma, fit_intercept=False).fit(FEATURES[TRAIN].double().numpy(), targets)
        assert relative_error(weights_of(method, state), sklearn.coef_.T) < 1e-8


@pytest.mark.parametrize("form", ["statistics", "recursive"])
def test_absent_clients_leave_the_ridge_solution_of_those_present(form):
    answered = []  # task and client of all that answered

    class Listening(AFCL):
        def learn(self, state, task, clients):
            self.task = task.index
            return super().learn(state, task, clients)

        def uploaded(self, client):
            answered.append((self.task, client.id))
            return super().uploaded(client)

    who = Participation(participation=0.5, dropout=0.3)
    stream, state, method = learned(who=who, clients=8, kind=Listening, form=form)
    samples = np.concatenate([stream.indices(task, client) for task, client in answered])
    assert 0 < len(samples) < len(LABELS[TRAIN])
    expected = joint_ridge(stream, FEATURES[TRAIN][samples], LABELS[TRAIN][samples])
    assert relative_error(weights_of(method, state), expected) < 1e-8


def test_the_papers_matrices_are_the_simple_ones():
    """A_k and B_k exactly as the paper's equation (9) prints them give the update that absorb() computes."""
    random = torch.Generator().manual_seed(0)
    rows = [torch.randn(9, 6, generator=random, dtype=torch.float64) for _ in range(2)]
    eye = torch.eye(6, dtype=torch.float64)
    before, now = (part.T @ part + 0.5 * eye for part in rows)
    g, known, new = (torch.randn(6, n, generator=random, dtype=torch.float64) for n in (3, 3, 2))
    total = before + now
    a = eye - before.inverse() @ now @ (eye - total.inverse() @ now)
    b = eye - now.inverse() @ before @ (eye - total.inverse() @ before)
    printed = torch.cat([a @ g + b @ known, b @ new], dim=1)
    knowledge = Knowledge(before, g, clients=1).with_classes(5).absorb(Solution(now, known, new))
    torch.testing.assert_close(knowledge.matrix, printed, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(knowledge.gram, total)
    assert knowledge.clients == 2


def test_gamma_zero_with_a_singular_gram_matrix():
    few = np.concatenate([np.flatnonzero(LABELS[TRAIN] == label)[:4] for label in range(10)])  # 40 samples, 64 features
    data = {"features": FEATURES[TRAIN][few], "labels": LABELS[TRAIN][few], "gamma": 0.0}
    stream, state, method = learned(**data)
    with pytest.warns(UserWarning, match="singular: taking the minimum-norm solution"):
        weights = weights_of(method, state)
    targets = np.eye(10)[stream.number[data["labels"]]]
    expected = np.linalg.lstsq(data["features"].double().numpy(), targets, rcond=1e-10)[0]
    assert relative_error(weights, expected) < 1e-6
    with pytest.raises(UserError, match=r"with gamma=0 that of client \d+ \(\d+ samples, 64 features\) is singular"):
        learned(form="recursive", **data)


def test_gamma_zero_with_a_regular_gram_matrix_is_least_squares():
    random = torch.Generator().manual_seed(0)
    features = torch.randn(int(TRAIN.sum()), 8, generator=random)
    for form in ("statistics", "recursive"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            stream, state, method = learned(tasks=2, alpha=100, features=features, gamma=0.0, form=form)
            weights = weights_of(method, state)
        targets = np.eye(10)[stream.number[LABELS[TRAIN]]]
        expected = np.linalg.lstsq(features.double().numpy(), targets, rcond=None)[0]
        assert relative_error(weights, expected) < 1e-8


@pytest.mark.parametrize(("form", "gram"), [("statistics", 200 * 128 + 72 * 72), ("recursive", 200 * 200)])
def test_uploads_are_the_statistics_and_nothing_is_downloaded(form, gram):
    """In panels of 128 columns, the triangle of a matrix of 200 columns has one of 200 rows and one of 72."""
    features = torch.randn(int(TRAIN.sum()), 200, generator=torch.Generator().manual_seed(0))
    method = make(AFCL, Backbone(200), form=form, arithmetic="float64")
    done = course(method, features, LABELS[TRAIN], SiBlurry(1), Dirichlet(3, alpha=100))  # all classes at every client
    (exchange,) = done.exchanges
    assert exchange.downlink_bytes == 0
    assert exchange.uplink_bytes == 3 * 8 * (gram + 200 * 10)


def hashes_of(**settings):
    stream, state, method = learned(arithmetic="integer", **settings)
    return hashes(method.evidence(state), method.classifier(state), stream.order)


@pytest.mark.parametrize("bits", [7, 12])
def test_with_whole_numbers_it_is_the_joint_solution_of_rounded_features(bits):
    stream, state, method = learned(arithmetic="integer", bits=bits)
    step = 64 / (2**bits - 1)  # this backbone does not know the range of its features
    rounded = torch.from_numpy(np.rint(FEATURES[TRAIN].numpy() * np.float32(1 / step)).astype(float) * step)
    assert relative_error(weights_of(method, state), joint_ridge(stream, features=rounded)) < 1e-8


def test_with_whole_numbers_the_model_is_the_same_to_the_bit():
    expected = hashes_of(tasks=1, clients=1)
    for tasks in (1, 5, 10):
        for alpha in (0.05, 100):
            for clients in (5, 100):
                assert hashes_of(tasks=tasks, alpha=alpha, clients=clients) == expected
    assert hashes_of(who=Participation(arrival="shuffled")) == expected
    assert hashes_of(bits=12) != expected


def test_features_beyond_the_range_are_counted_and_named():
    backbone = Backbone(64, inputs=InputSpec((64,), high=0.5))
    method = make(AFCL, backbone)
    with pytest.warns(UserWarning, match=r"features of \d+ samples are beyond backbone.feature_range and were clipped"):
        done = course(method, FEATURES[TRAIN], LABELS[TRAIN], SiBlurry(2), Dirichlet(3, alpha=1))
    beyond = int((FEATURES[TRAIN] > 0.5 * 127.5 / 127).sum())
    assert method.evidence(done.states[-1]).clipped == beyond > 0


def test_integer_uploads_are_of_the_smallest_types():
    features = torch.rand(int(TRAIN.sum()), 200, generator=torch.Generator().manual_seed(0))
    method = make(AFCL, Backbone(200, inputs=InputSpec((200,), high=1.0)))
    done = course(method, features, LABELS[TRAIN], SiBlurry(1), Dirichlet(3, alpha=100))
    (exchange,) = done.exchanges
    assert exchange.downlink_bytes == 3 * 8  # the number of classes
    assert exchange.uplink_bytes == 3 * (4 * (200 * 128 + 72 * 72) + 2 * 200 * 10 + 2 * 8)


def balanced_ridge(stream, tasks, power):
    """Ridge regression on all samples of the first tasks, the column of each class divided by a power of its count."""
    rows = np.concatenate([stream.indices(task, client) for task in range(tasks) for client in range(5)])
    inputs = FEATURES[TRAIN].double().numpy()[rows]
    targets = np.eye(stream.tasks[tasks - 1].seen)[stream.number[LABELS[TRAIN][rows]]]
    return np.linalg.solve(
        inputs.T @ inputs + np.eye(inputs.shape[1]), inputs.T @ targets / targets.sum(axis=0) ** power
    )


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_balanced_columns_are_those_of_the_joint_solution_after_every_task(power):
    method = make(AFCL, Backbone(64), arithmetic="float64", balance=power)
    done = course(method, FEATURES[TRAIN], LABELS[TRAIN], SiBlurry(3), Dirichlet(5, alpha=0.1))
    for task, state in enumerate(done.states, start=1):
        assert relative_error(weights_of(method, state), balanced_ridge(done.stream, task, power)) < 1e-8


def test_balanced_columns_of_whole_numbers_are_the_same_to_the_bit():
    expected = hashes_of(tasks=1, clients=1, balance=0.5)
    assert hashes_of(tasks=10, alpha=0.05, clients=100, balance=0.5) == expected
    assert hashes_of(tasks=5, who=Participation(arrival="shuffled"), balance=0.5) == expected
    plain = hashes_of(tasks=1, clients=1)
    assert plain["weights"] != expected["weights"]


def test_balanced_columns_cost_a_number_for_each_class():
    exchanges = []
    for power in (0.0, 0.5):
        method = make(AFCL, Backbone(64), arithmetic="float64", balance=power)
        done = course(method, FEATURES[TRAIN], LABELS[TRAIN], SiBlurry(1), Dirichlet(1, alpha=100))
        exchanges.append(done.exchanges[0].uplink_bytes)
    assert exchanges[1] - exchanges[0] == 8 * 10


def test_samples_are_unlearnt_from_balanced_columns_too():
    method = make(AFCL, Backbone(64), balance=0.5)
    labels = torch.from_numpy(LABELS[TRAIN])
    everything = torch.arange(len(labels))
    gone = everything[labels == 3]
    classes = torch.tensor([label for label in range(10) if label != 3])
    state = method.joint(ClientData(FEATURES[TRAIN], everything, labels), classes=10)
    left = method.unlearn(state, ClientData(FEATURES[TRAIN], gone, labels[gone]), classes)
    assert left.by_class.tolist() == np.bincount(LABELS[TRAIN])[classes.numpy()].tolist()
    assert not method.unlearn(state, ClientData(FEATURES[TRAIN], gone, labels[gone]), torch.tensor([3])).by_class.any()


def test_the_papers_messages_cannot_be_balanced():
    with pytest.raises(
        ConfigError, match=r"Expected method.form=statistics with method.balance=0.5, but got recursive"
    ):
        make(AFCL, Backbone(64), form="recursive", balance=0.5)
