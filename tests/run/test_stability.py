"""The limit of the learning rate: against eigenvalues of numpy, curvatures of autograd, and steps that diverge."""

import numpy as np
import pytest
import torch
from conftest import TINY, Command
from torch.nn.functional import cross_entropy

from fcl_bench.config.compose import composed
from fcl_bench.run.stability import largest_eigenvalue, warning

RANDOM = torch.Generator().manual_seed(0)


@pytest.mark.parametrize("mean", [0.0, 3.0])
def test_the_eigenvalue_is_that_of_numpy(mean: float) -> None:
    rows = mean + torch.randn(300, 40, generator=RANDOM) * torch.linspace(0.2, 2, 40)
    expected = np.linalg.eigvalsh(rows.double().numpy().T @ rows.double().numpy() / 300)[-1]
    assert largest_eigenvalue(rows) == pytest.approx(expected, rel=0.05)
    assert largest_eigenvalue(rows) <= expected * (1 + 1e-5)
    assert largest_eigenvalue(torch.zeros(3, 4)) == 0


def test_the_curvature_of_a_softmax_is_at_most_half_of_it() -> None:
    """Nearly half where two classes are equally likely and all others are out of the question."""
    rows = (5 + torch.randn(30, 3, generator=RANDOM)).double()
    labels = torch.arange(30) % 4
    largest = []
    for bias in ([0.0, 0.0, 0.0, 0.0], [20.0, 20.0, 0.0, 0.0]):

        def loss(weight: torch.Tensor, bias: list[float] = bias) -> torch.Tensor:
            return cross_entropy(rows @ weight.view(4, 3).T + torch.tensor(bias), labels)

        hessian = torch.autograd.functional.hessian(loss, torch.zeros(12, dtype=torch.float64))
        largest.append(float(torch.linalg.eigvalsh(hessian)[-1]))
    half = largest_eigenvalue(rows.float()) / 2
    assert largest[0] < half
    assert largest[1] == pytest.approx(half, rel=1e-3)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize(("factor", "diverges"), [(0.98, False), (1.02, True)])
def test_steps_diverge_above_the_limit(momentum: float, factor: float, diverges: bool) -> None:
    curvature = 50.0
    place = torch.ones(1, dtype=torch.float64, requires_grad=True)
    rate = factor * 2 * (1 + momentum) / curvature
    optimizer = torch.optim.SGD([place], lr=rate, momentum=momentum)
    for _ in range(300):
        optimizer.zero_grad()
        (curvature * place.square().sum() / 2).backward()
        optimizer.step()
    assert (abs(place.item()) > 1) == diverges


def features(scale: float) -> torch.Tensor:
    """Ones of this length in one direction: the eigenvalue is its square."""
    return torch.tensor([[scale, 0.0]]).repeat(50, 1)


@pytest.mark.parametrize(
    ("words", "scale", "warned"),
    [
        ("", 27.5, False),  # 0.01 * 756 < 7.6
        ("", 27.6, True),
        ("method.optimizer.momentum=0", 19.9, False),  # below 4
        ("method.optimizer.momentum=0", 20.1, True),
        ("method.lr=0.001", 80, False),
        ("method.lr=0.001", 90, True),
        ("method.optimizer._target_=torch.optim.Adam", 1000, False),
        ("", 0, False),
    ],
)
def test_a_warning_names_the_limit(words: str, scale: float, warned: bool) -> None:
    config = composed("method=finetune", *TINY, *words.split())
    sentence = warning(config, features(scale))
    assert (sentence is not None) == warned
    if sentence:
        momentum = config.method.optimizer.momentum
        assert f"is sure to be stable up to {4 * (1 + momentum) / scale**2:.2g} only" in sentence


@pytest.mark.parametrize("method", ["afcl", "fedncm", "joint"])
def test_methods_without_a_softmax_of_their_own_are_not_warned(method: str) -> None:
    assert warning(composed(f"method={method}", *TINY), features(1000)) is None


def test_images_are_not_features() -> None:
    assert warning(composed("method=finetune", *TINY), torch.full((5, 3, 4, 4), 255.0)) is None


def test_a_run_says_it_once_before_training(tiny: Command) -> None:
    wild = tiny("method=finetune", "budget.rounds=1", "budget.epochs=1", "method.lr=100")
    assert wild.err.count("warning: method.lr=100 may be too large") == 1
    assert tiny("method=finetune", "budget.rounds=1", "budget.epochs=1").err == ""


def test_the_embedded_data_set_suggests_a_learning_rate_and_others_do_not() -> None:
    for method in ("finetune", "derpp", "joint_sgd"):
        assert composed(f"method={method}").method.lr == 0.003
        assert composed(f"method={method}", "method.lr=0.02").method.lr == 0.02
        assert composed(f"method={method}", "dataset=cifar100", "protocol=frozen_v1").method.lr == 0.01
