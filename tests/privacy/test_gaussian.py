"""Differential privacy: how much noise, on what, and that no sample counts for more than it may."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some

from fcl_bench import Prepared, linalg, random_projection, restored, sensitivity, with_noise
from fcl_bench.client_data import ClientData
from fcl_bench.moments import InFloat64
from fcl_bench.privacy.mechanism import delta_of, noise_multiplier

FEATURES = 200  # two panels of a triangle


@pytest.mark.parametrize(("epsilon", "published"), [(0.5, 7.03), (1, 3.73), (2, 1.99), (4, 1.08), (8, 0.60)])
def test_the_noise_is_that_of_the_analytic_gaussian_mechanism(epsilon, published):
    assert noise_multiplier(epsilon, delta=1e-5) == pytest.approx(published, abs=0.005)


@pytest.mark.parametrize(("deviation", "epsilon"), [(3.7, 1.0), (0.6, 8.0), (10.0, 0.1), (0.05, 250.0)])
def test_delta_is_the_integral_of_what_epsilon_does_not_cover(deviation, epsilon):
    """Of the density around 1 over e^epsilon times the density around 0."""
    places = np.linspace(-12 * deviation, 1 + 12 * deviation, 2_000_001)
    log_with = -((places - 1) ** 2) / (2 * deviation**2)
    log_without = -(places**2) / (2 * deviation**2) + epsilon
    density = np.exp(log_with) - np.exp(np.minimum(log_without, log_with))
    integral = np.trapezoid(density, places) / (deviation * math.sqrt(2 * math.pi))
    assert delta_of(deviation, epsilon) == pytest.approx(integral, rel=1e-6, abs=1e-12)


@given(some.data())
@settings(deadline=None, max_examples=40)
def test_no_sample_moves_the_sums_by_more_than_their_sensitivity(data):
    """Samples of any size, with a projection or without: against all samples but one."""
    clip = data.draw(some.floats(0.1, 3))
    random = torch.Generator().manual_seed(data.draw(some.integers(0, 1000)))
    inputs = torch.randn(6, 5, generator=random) * 10.0 ** data.draw(some.integers(-2, 3))
    labels = torch.randint(3, (6,), generator=random)
    projection = data.draw(some.sampled_from([None, torch.randn(5, 3, generator=random, dtype=torch.float64)]))
    features = 5 if projection is None else 3
    every, fewer = (
        InFloat64().moments(Prepared(ClientData(inputs, rows, labels[rows]), projection, clip), features, 3)
        for rows in (torch.arange(6), torch.arange(5))
    )
    gram = linalg.whole(every.gram, features) - linalg.whole(fewer.gram, features)
    moved = math.sqrt(float(gram.square().sum() + (every.cross - fewer.cross).square().sum()))
    assert moved <= sensitivity(clip) * (1 + 1e-9)


def test_small_samples_are_not_scaled_up():
    inputs = torch.tensor([[0.3, 0.4], [3.0, 4.0]])
    samples = Prepared(ClientData(inputs, torch.arange(2), torch.zeros(2, dtype=torch.int64)), None, clip=1.0)
    ((rows, _),) = samples.batches(10)
    torch.testing.assert_close(rows, torch.tensor([[0.3, 0.4], [0.6, 0.8]], dtype=torch.float64))


def test_noise_has_the_deviation_that_was_asked_for():
    """Off the diagonal, the mean of two numbers has half of the variance; the matrix is symmetric."""
    nothing = InFloat64().nothing(FEATURES).with_classes(50)
    torch.manual_seed(0)
    noisy = with_noise(nothing, 3.0)
    gram = linalg.whole(noisy.gram, FEATURES)
    assert torch.equal(gram, gram.T)
    lower = gram[torch.ones_like(gram, dtype=torch.bool).tril(-1)]  # 19,900 numbers
    assert float(lower.std()) == pytest.approx(3 / math.sqrt(2), rel=0.03)
    assert float(gram.diagonal().std()) == pytest.approx(3, rel=0.25)
    assert float(noisy.cross.std()) == pytest.approx(3, rel=0.05)  # 10,000 numbers
    assert noisy.noise == 9.0


def test_the_variance_of_sums_adds_up():
    arithmetic = InFloat64()
    nothing = arithmetic.nothing(3).with_classes(2)
    parts = [with_noise(nothing, deviation) for deviation in (1.0, 2.0)]
    total = arithmetic.total(arithmetic.total(nothing, [parts[0]]), [nothing, parts[1]])
    assert total.noise == 5.0


def test_a_noisy_matrix_is_positive_definite_again():
    random = torch.Generator().manual_seed(0)
    rows = torch.randn(50, FEATURES, generator=random, dtype=torch.float64)
    noise = 4 * torch.randn(FEATURES, FEATURES, generator=random, dtype=torch.float64)
    noisy = rows.T @ rows + (noise + noise.T) / 2
    before = torch.linalg.eigvalsh(noisy)
    after = torch.linalg.eigvalsh(restored(noisy, 16.0))
    edge = math.sqrt(2 * 16 * FEATURES)  # of the semicircle law
    assert before[0] < -0.8 * edge
    np.testing.assert_allclose(after, before.clamp(min=0) + edge, rtol=1e-9)


def test_a_projection_keeps_norms_on_average_and_is_the_same_at_server_and_clients(tiny):
    torch.manual_seed(0)
    rows = torch.randn(500, 100, dtype=torch.float64)
    projected = rows @ random_projection(100, 40)
    assert float((projected.square().sum(1) / rows.square().sum(1)).mean()) == pytest.approx(1, abs=0.05)
    settings = ("method=afcl", "method.arithmetic=float64", "method.project=8")
    alone = tiny(*settings)
    elsewhere = tiny(*settings, "transport=wire", "resume=false")
    np.testing.assert_array_equal(alone.predictions, elsewhere.predictions)


def test_forms_of_afcl_agree_on_projected_features(tiny):
    settings = ("method=afcl", "method.arithmetic=float64", "method.project=8")
    statistics = tiny(*settings)
    recursive = tiny(*settings, "method.form=recursive")
    np.testing.assert_array_equal(statistics.predictions, recursive.predictions)


def test_a_record_has_the_budget(tiny):
    result = tiny("method=afcl", "privacy=gaussian", "privacy.epsilon=4").result
    assert result["privacy"]["noise_multiplier"] == pytest.approx(1.08, abs=0.005)
    assert not result["facts"]["exact"]
    assert {"epsilon": 4.0, "delta": 1e-5, "clip": 1.0}.items() <= result["privacy"].items()


@pytest.mark.parametrize("method", ["afcl", "fedncm"])
def test_much_budget_costs_little_and_little_costs_much(tiny, method):
    accuracy = {}
    for epsilon in (0.01, 1e4):
        run = tiny(f"method={method}", "privacy=gaussian", f"privacy.epsilon={epsilon}")
        accuracy[epsilon] = run.result["metrics"]["average_accuracy"]
    plain = tiny(f"method={method}", "method.arithmetic=float64").result["metrics"]["average_accuracy"]
    assert accuracy[1e4] > plain - 10
    assert accuracy[0.01] < plain - 20


def test_another_transport_adds_the_same_noise(tiny):
    here = tiny("method=afcl", "privacy=gaussian")
    away = tiny("method=afcl", "privacy=gaussian", "transport=processes", "transport.workers=2", "resume=false")
    assert here.result["evidence"] == away.result["evidence"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("method=finetune privacy=gaussian", "uploads are sums in which each sample is bounded, but Finetune"),
        ("method=afcl privacy=gaussian method.arithmetic=integer", "but AFCL with these settings has none"),
        ("method=afcl privacy=gaussian method.form=recursive", "but AFCL with these settings has none"),
        ("method=afcl privacy=gaussian privacy.epsilon=0", "privacy.epsilon"),
        ("method=afcl privacy=gaussian privacy.delta=1", "privacy.delta"),
        ("method=afcl privacy=gaussian privacy.clip=-1", "privacy.clip"),
        ("method=afcl method.project=8", "method.project=8 with method.arithmetic=float64, but got integer"),
    ],
)
def test_settings_without_a_meaning_are_refused(tiny, output_dir, words, complaint):
    done = tiny(*words.split())
    assert (done.code, done.err.count("\n")) == (2, 1), done.err
    assert complaint in done.err
    assert not output_dir.exists()
