"""Joint against scikit-learn."""

import making
import numpy as np
import pytest
import torch
from conftest import course
from sklearn.linear_model import Ridge

from fcl_bench import Backbone, ConfigError
from fcl_bench.local import TrainerFit
from fcl_bench.methods.afcl import AFCL
from fcl_bench.methods.joint import Joint
from fcl_bench.partition import Dirichlet
from fcl_bench.temporal import SiBlurry

LABELS = np.arange(200) % 5
INPUTS = torch.randn(200, 8, generator=torch.Generator().manual_seed(0)) + 4 * torch.eye(5, 8)[LABELS]


def joint(trainable=False, **settings):
    trainer = TrainerFit(accelerator="cpu")
    return making.make(
        Joint, Backbone(8, trainable), **{"fit": trainer, "optimizer": torch.optim.SGD, "epochs": 20} | settings
    )


def learned(method):
    done = course(method, INPUTS, LABELS, SiBlurry(3), Dirichlet(4, alpha=0.2))
    return done.stream, done.states


@pytest.mark.parametrize("gamma", [0.0, 0.5, 10.0])
def test_after_every_task_it_is_scikit_learns_ridge_on_all_data_so_far(gamma):
    stream, states = learned(joint(gamma=gamma))
    for task, state in zip(stream.tasks, states, strict=True):
        rows = np.concatenate([stream.indices(t, k) for t in range(task.index + 1) for k in range(4)])
        targets = np.eye(task.seen)[stream.number[LABELS[rows]]]
        inputs = INPUTS[rows].double().numpy()
        expected = Ridge(alpha=gamma, fit_intercept=False).fit(inputs, targets).coef_.T
        np.testing.assert_allclose(state.weights["ridge"].numpy(), expected, rtol=1e-7, atol=1e-9)


def test_the_sgd_head_learns_all_tasks():
    method = joint(head="sgd", lr=0.1)
    stream, states = learned(method)
    predicted = method.classifier(states[-1])(INPUTS).argmax(dim=1).numpy()
    assert np.mean(stream.order[predicted] == LABELS) > 0.95
    assert not method.exact


def test_ridge_needs_frozen_features():
    with pytest.raises(
        ConfigError, match=r"Expected a frozen backbone for method.head=ridge, but got backbone.trainable=true"
    ):
        joint(trainable=True)


def test_with_whole_numbers_its_weights_are_those_of_afcl_to_the_bit():
    method = joint(arithmetic="integer")
    stream, states = learned(method)
    afcl = making.make(AFCL, Backbone(8))
    done = course(afcl, INPUTS, LABELS, SiBlurry(2), Dirichlet(3, alpha=1))
    found = method.classifier(states[-1]).weights[:, stream.order.argsort()]
    assert torch.equal(found, afcl.classifier(done.states[-1]).weights[:, done.stream.order.argsort()])
