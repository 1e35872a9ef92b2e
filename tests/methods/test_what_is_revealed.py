"""What the harness counts as revealed, for each method that can tell: against the stream's own counts."""

import numpy as np
import pytest
import torch
from conftest import course
from making import BACKBONE, INPUTS, LABELS, make

from fcl_bench import Backbone, ClientData, Update
from fcl_bench.backbone import InputSpec
from fcl_bench.methods.afcl import AFCL
from fcl_bench.methods.fedicarl import FediCaRL, Means
from fcl_bench.methods.fedncm import FedNCM
from fcl_bench.methods.finetune import Finetune
from fcl_bench.methods.joint import Joint
from fcl_bench.methods.target import TARGET, moments_of
from fcl_bench.partition import Dirichlet
from fcl_bench.temporal import SiBlurry
from fcl_bench.transport.in_process import InProcess
from fcl_bench.transport.wire import Wire

CLIENTS = 7


def learned(method, transport=None):
    return course(method, INPUTS, LABELS, SiBlurry(3), Dirichlet(CLIENTS, alpha=0.3), transport=transport)


def told(done):
    """Samples and uploads, of each task."""
    return [(exchange.samples_revealed, exchange.revealing_uploads) for exchange in done.exchanges]


def single_cells(stream):
    """The cells (task, client, class) of one sample."""
    return stream.counts[stream.counts[:, 3] == 1, :3].tolist()


@pytest.mark.parametrize("transport", [InProcess, Wire])
@pytest.mark.parametrize(
    "method",
    [
        make(AFCL),
        make(AFCL, arithmetic="float64"),
        make(AFCL, form="recursive"),
        make(FedNCM),
        make(FedNCM, arithmetic="float64"),
    ],
    ids=["integer", "float64", "recursive", "means", "means in float64"],
)
def test_sums_of_features_reveal_every_sample_that_is_alone(method, transport):
    done = learned(method, transport())
    cells = single_cells(done.stream)
    assert len(cells) > 5
    for task, (samples, uploads) in enumerate(told(done)):
        of_task = [(client, number) for where, client, number in cells if where == task]
        assert samples == len(of_task)
        assert uploads == len({client for client, _ in of_task})


def test_the_oracle_reveals_all():
    done = learned(make(Joint))
    assert told(done) == [(sizes.sum(), (sizes > 0).sum()) for sizes in done.stream.sizes]


def test_exemplar_means_reveal_the_direction_of_a_sample_that_is_the_only_one_of_its_class_so_far():
    done = learned(make(FediCaRL, memory_size=300, rounds=1, epochs=1))
    so_far = set()
    expected = 0
    for task, client, number, samples in done.stream.counts.tolist():
        expected += samples == 1 and (client, number) not in so_far
        so_far.add((client, number))
    counted = [exchange.samples_revealed for exchange in done.exchanges if exchange.function == "herd"]
    assert sum(counted) == expected > 0
    assert {exchange.samples_revealed for exchange in done.exchanges if exchange.function != "herd"} == {None}


def test_target_tells_the_sums_of_its_moments_and_of_nothing_else():
    method = make(TARGET)
    features = torch.tensor([[1.0, 2, 3, 4, 5], [2, 2, 2, 2, 2], [1, 0, 0, 0, 0]])
    found = method.class_sums(moments_of(features, torch.tensor([3, 1, 3])))
    assert found.sums.tolist() == [[0] * 5, [2] * 5, [0] * 5, [2, 2, 3, 4, 5]]
    assert len(method.class_sums(moments_of(features[:0], torch.zeros(0, dtype=torch.int64))).sums) == 0
    assert method.class_sums(Update({}, 3)) is None


def test_where_clients_hold_images_sums_of_features_are_not_compared_with_them():
    network = Backbone(5, True, lambda: torch.nn.Flatten(), InputSpec((3, 8, 8), torch.uint8, 0, 255))
    means = Means(torch.zeros(2, 5), torch.zeros(2))
    assert make(FediCaRL, network).class_sums(means) is None
    assert make(FediCaRL, BACKBONE).class_sums(means) is not None


def test_methods_that_cannot_tell_are_not_measured():
    done = learned(make(Finetune, rounds=1, epochs=1))
    assert set(told(done)) == {(None, None)}


def test_an_upload_of_the_analytic_method_tells_span_rank_and_numbers_of_its_samples():
    """By numpy: of fewer samples than features, with independent features."""
    random = np.random.default_rng(0)
    features = torch.from_numpy(random.normal(size=(9, 30)))
    labels = torch.tensor([0, 0, 1, 2, 2, 2, 2, 4, 4])
    method = make(AFCL, Backbone(30), arithmetic="float64")
    gram, cross = method.sums.system(method.joint(ClientData(features, torch.arange(9), labels), classes=5))
    gram, cross, rows = gram.numpy(), cross.numpy(), features.numpy()
    assert np.linalg.matrix_rank(gram) == 9
    values, vectors = np.linalg.eigh(gram)
    span = vectors[:, values > 1e-9 * values.max()]
    np.testing.assert_allclose(span @ (span.T @ rows.T), rows.T, atol=1e-10)  # every sample lies in it
    np.testing.assert_allclose(cross[:, 1], rows[2], atol=1e-12)
    numbers = np.diag(cross.T @ np.linalg.pinv(gram, hermitian=True) @ cross)
    np.testing.assert_allclose(numbers, [2, 1, 4, 0, 2], atol=1e-9)


def test_a_rotation_of_the_samples_that_keeps_class_sums_gives_the_same_upload():
    random = np.random.default_rng(0)
    features = random.normal(size=(6, 30))
    targets = np.eye(3)[[0, 1, 1, 2, 2, 2]]
    sums, _ = np.linalg.qr(targets, mode="complete")  # the first three columns span those of the targets
    turn, _ = np.linalg.qr(random.normal(size=(3, 3)))
    rotation = sums[:, :3] @ sums[:, :3].T + sums[:, 3:] @ turn @ sums[:, 3:].T
    others = rotation @ features
    assert np.abs(others - features)[1:].max(axis=1).min() > 0.1  # other samples but for the one that is alone
    np.testing.assert_allclose(others[0], features[0], atol=1e-12)
    np.testing.assert_allclose(others.T @ others, features.T @ features, atol=1e-12)
    np.testing.assert_allclose(others.T @ targets, features.T @ targets, atol=1e-12)
