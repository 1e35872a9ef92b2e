"""AFCL against joint ridge regression, computed here by numpy and by scikit-learn from the pooled data."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import Ridge

from fcl_bench.backbone import Backbone
from fcl_bench.config.compose import composed
from fcl_bench.errors import UserError
from fcl_bench.federation import Federation, Participation
from fcl_bench.methods.afcl import AFCL, PANEL, Solution, absorb, panels, square, triangle_size
from fcl_bench.partition import Dirichlet
from fcl_bench.run.scenario import deal, prepare
from fcl_bench.stream import make_stream
from fcl_bench.temporal import SiBlurry
from fcl_bench.transport.in_process import InProcess

images, LABELS = load_digits(return_X_y=True)
FEATURES = torch.from_numpy(images / 16).float()  # (1797, 64)
TRAIN = np.arange(len(LABELS)) % 5 != 0


def learned(
    tasks=5, alpha=0.1, clients=5, who=None, features=FEATURES[TRAIN], labels=LABELS[TRAIN], transport=None, **settings
):
    """The stream, AFCL's last state and its exchanges."""
    stream = make_stream(labels, LABELS[~TRAIN], SiBlurry(tasks), Dirichlet(clients, alpha=alpha), seed=1)

    def build():
        return AFCL(Backbone(features.shape[1]), **settings)

    method = build()
    federation = Federation(stream, features, labels, build, transport or InProcess(), who or Participation(), seed=1)
    state = method.init()
    for task in stream.tasks:
        for state in method.learn(state, task, federation.open(method, task)):
            pass
    return stream, state, method


def joint_ridge(stream, features=FEATURES[TRAIN], labels=LABELS[TRAIN], gamma=1.0):
    """The textbook solution on all data at once, columns in order of registration."""
    rows, targets = features.double().numpy(), np.eye(len(stream.order))[stream.number[labels]]
    return np.linalg.solve(rows.T @ rows + gamma * np.eye(rows.shape[1]), rows.T @ targets)


def relative_error(weights, expected):
    return np.linalg.norm(weights.numpy() - expected) / np.linalg.norm(expected)


def assert_equals_joint(stream, state, method, gamma=1.0):
    expected = joint_ridge(stream, gamma=gamma)
    assert relative_error(state.weights, expected) < 1e-8
    predicted = method.classifier(state)(FEATURES[~TRAIN]).argmax(dim=1).numpy()
    assert np.array_equal(predicted, (FEATURES[~TRAIN].double().numpy() @ expected).argmax(axis=1))


@pytest.mark.parametrize("form", ["statistics", "recursive"])
@pytest.mark.parametrize("clients", [1, 5, 100, 1000])  # of a thousand, many have no data
@pytest.mark.parametrize("alpha", [0.05, 0.1, 1, 100])
@pytest.mark.parametrize("tasks", [1, 5, 10])
def test_the_weights_are_those_of_joint_ridge_regression(tasks, alpha, clients, form):
    stream, state, method = learned(tasks, alpha, clients, form=form)
    assert_equals_joint(stream, state, method)
    assert (stream.sizes == 0).any() == (clients * tasks > 1000)


@pytest.mark.parametrize("form", ["statistics", "recursive"])
@pytest.mark.parametrize(("tasks", "clients"), [(1, 100), (5, 5), (10, 5)])
def test_also_on_the_1280_features_of_the_default_backbone(digits_run, cache_dir, tasks, clients, form):
    config = composed("method=afcl", f"cache_dir={cache_dir}")
    world = prepare(config, deal(config), lambda what: lambda done, total: None)
    labels = world.dataset.train.labels
    stream, state, method = learned(tasks, clients=clients, features=world.train, labels=labels, form=form)
    expected = joint_ridge(stream, world.train, labels)
    assert expected.shape == (1280, 10)
    assert relative_error(state.weights, expected) < 1e-8
    predicted = method.classifier(state)(world.test).argmax(dim=1).numpy()
    assert np.array_equal(predicted, (world.test.double().numpy() @ expected).argmax(axis=1))


@pytest.mark.parametrize("form", ["statistics", "recursive"])
def test_the_order_in_which_clients_answer_does_not_matter(form):
    assert_equals_joint(*learned(who=Participation(arrival="shuffled"), form=form))


@pytest.mark.parametrize("form", ["statistics", "recursive"])
def test_losing_clients_without_data_changes_nothing(form):
    class WithoutIdle(InProcess):
        def map(self, request, clients):
            return super().map(request, (client for client in clients if len(client.data)))

    stream, state, method = learned(10, 0.05, clients=300, transport=WithoutIdle(), form=form)
    assert (stream.sizes == 0).any()
    assert_equals_joint(stream, state, method)


@pytest.mark.parametrize("gamma", [1e-3, 1.0, 100.0])
def test_both_forms_follow_gamma_and_scikit_learn_agrees(gamma):
    for form in ("statistics", "recursive"):
        stream, state, method = learned(gamma=gamma, form=form)
        assert_equals_joint(stream, state, method, gamma)
        targets = np.eye(10)[stream.number[LABELS[TRAIN]]]
        sklearn = Ridge(alpha=gamma, fit_intercept=False).fit(FEATURES[TRAIN].double().numpy(), targets)
        assert relative_error(state.weights, sklearn.coef_.T) < 1e-8


def test_absent_clients_leave_the_ridge_solution_of_those_present():
    who = Participation(participation=0.5, dropout=0.3)
    for form in ("statistics", "recursive"):
        stream, state, _ = learned(who=who, clients=8, form=form)
        answered = _answered(who, stream)
        expected = joint_ridge(stream, FEATURES[TRAIN][answered], LABELS[TRAIN][answered])
        assert relative_error(state.weights, expected) < 1e-8
        assert 0 < len(answered) < len(LABELS[TRAIN])


def _answered(who, stream):
    """The samples of all clients that answered, found by listening to the same exchanges."""
    heard = []

    class Listener(InProcess):
        def map(self, request, clients):
            for client in clients:
                heard.append(client.data._indices.numpy())
                yield from super().map(request, [client])

    learned(who=who, clients=stream.clients, transport=Listener())
    return np.concatenate(heard)


def test_the_papers_matrices_are_the_simple_ones():
    """A_k and B_k exactly as equation 3.5-3 prints them give the update that absorb() computes."""
    random = torch.Generator().manual_seed(0)
    rows = [torch.randn(9, 6, generator=random, dtype=torch.float64) for _ in range(2)]
    before, now = (part.T @ part + 0.5 * torch.eye(6, dtype=torch.float64) for part in rows)
    g, known, new = (torch.randn(6, n, generator=random, dtype=torch.float64) for n in (3, 3, 2))
    eye, total = torch.eye(6, dtype=torch.float64), before + now
    a = eye - before.inverse() @ now @ (eye - total.inverse() @ now)
    b = eye - now.inverse() @ before @ (eye - total.inverse() @ before)
    printed = torch.cat([a @ g + b @ known, b @ new], dim=1)
    padded = torch.cat([g, torch.zeros(6, 2, dtype=torch.float64)], dim=1)
    gram, matrix = absorb(before, padded, Solution(now, known, new))
    torch.testing.assert_close(matrix, printed, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(gram, total)


@pytest.mark.parametrize("features", [1, 5, PANEL - 1, PANEL, PANEL + 1, 3 * PANEL + 7])
def test_panels_cover_the_lower_triangle(features):
    random = torch.Generator().manual_seed(0)
    rows = torch.randn(20, features, generator=random, dtype=torch.float64)
    triangle = torch.zeros(triangle_size(features), dtype=torch.float64)
    for start, panel in panels(triangle, features):
        panel += rows[:, start:].T @ rows[:, start : start + PANEL]
    torch.testing.assert_close(square(triangle, features), rows.T @ rows)
    assert len(triangle) <= (features**2 + PANEL * features) / 2 or features < PANEL


def test_gamma_zero_with_a_singular_gram_matrix():
    few = np.concatenate([np.flatnonzero(LABELS[TRAIN] == label)[:4] for label in range(10)])  # 40 samples, 64 features
    data = {"features": FEATURES[TRAIN][few], "labels": LABELS[TRAIN][few], "gamma": 0.0}
    with pytest.warns(UserWarning, match="singular: taking the minimum-norm solution"):
        stream, state, _ = learned(**data)
    targets = np.eye(10)[stream.number[data["labels"]]]
    expected = np.linalg.lstsq(data["features"].double().numpy(), targets, rcond=1e-10)[0]
    assert relative_error(state.weights, expected) < 1e-6
    with pytest.raises(UserError, match=r"with gamma=0 that of client \d+ \(\d+ samples, 64 features\) is singular"):
        learned(form="recursive", **data)


def test_gamma_zero_with_a_regular_gram_matrix_is_least_squares():
    random = torch.Generator().manual_seed(0)
    features = torch.randn(int(TRAIN.sum()), 8, generator=random)
    for form in ("statistics", "recursive"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            stream, state, _ = learned(tasks=2, alpha=100, features=features, gamma=0.0, form=form)
        targets = np.eye(10)[stream.number[LABELS[TRAIN]]]
        expected = np.linalg.lstsq(features.double().numpy(), targets, rcond=None)[0]
        assert relative_error(state.weights, expected) < 1e-8


def test_uploads_are_the_statistics_and_nothing_is_downloaded():
    lines = []
    stream = make_stream(LABELS[TRAIN], LABELS[~TRAIN], SiBlurry(1), Dirichlet(3, alpha=100), seed=1)
    for form, numbers in (("statistics", triangle_size(64) + 64 * 10), ("recursive", 64 * 64 + 64 * 10)):
        method = AFCL(Backbone(64), form=form)
        everyone = Participation()
        federation = Federation(
            stream, FEATURES[TRAIN], LABELS[TRAIN], None, InProcess(), everyone, 1, on_exchange=lines.append
        )
        list(method.learn(method.init(), stream.tasks[0], federation.open(method, stream.tasks[0])))
        assert lines[-1].downlink_bytes == 0
        assert lines[-1].uplink_bytes == 3 * 8 * numbers  # every client holds all classes at alpha 100
