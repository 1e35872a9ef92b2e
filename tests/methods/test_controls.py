"""FedProx, SCAFFOLD, FedAvg-ER, DER++ and FedNCM: what makes each of them what it is."""

import numpy as np
import pytest
import torch
from conftest import course
from sklearn.neighbors import NearestNeighbors
from torch.nn.functional import cross_entropy

from fcl_bench.backbone import Backbone
from fcl_bench.errors import ConfigError
from fcl_bench.head import grown
from fcl_bench.local import FabricFit
from fcl_bench.losses import Network
from fcl_bench.message import encode, snapshot
from fcl_bench.methods.derpp import Buffer, DarkReplay, DERpp
from fcl_bench.methods.fedavg_er import FedAvgER, Replay
from fcl_bench.methods.fedicarl import FediCaRL
from fcl_bench.methods.fedncm import FedNCM
from fcl_bench.methods.fedprox import FedProx
from fcl_bench.methods.finetune import Finetune
from fcl_bench.methods.scaffold import Scaffold
from fcl_bench.partition import Dirichlet, Iid
from fcl_bench.replay import Samples
from fcl_bench.temporal import Disjoint, SiBlurry

SAMPLES, FEATURES = 120, 5
LABELS = np.arange(SAMPLES) % 6
RANDOM = torch.Generator().manual_seed(0)
INPUTS = torch.randn(SAMPLES, FEATURES, generator=RANDOM) + 2 * torch.randn(6, FEATURES, generator=RANDOM)[LABELS]


def sgd(parameters, lr, weight_decay=0.01):
    return torch.optim.SGD(parameters, lr=lr, weight_decay=weight_decay)


def make(kind, **settings):
    own = {"fit": FabricFit(accelerator="cpu"), "optimizer": sgd, "rounds": 2, "epochs": 2, "lr": 0.1, "batch_size": 16}
    return kind(Backbone(FEATURES), **own | settings)


def learned(method, spatial=None, tasks=3):
    return course(method, INPUTS, LABELS, SiBlurry(tasks), spatial or Dirichlet(3, alpha=0.5))


def test_fedprox_without_its_term_is_finetune_to_the_bit():
    plain, zero, some = (learned(method) for method in (make(Finetune), make(FedProx, mu=0.0), make(FedProx, mu=1.0)))
    assert encode(plain.states[-1].weights) == encode(zero.states[-1].weights)
    assert encode(plain.states[-1].weights) != encode(some.states[-1].weights)


def test_fedprox_pulls_towards_the_model_of_the_round():
    """One full-batch step from the received weights has no pull yet; the second has mu (w - w_global)."""
    mu, lr = 0.7, 0.1
    method = make(FedProx, mu=mu, rounds=1, epochs=2, batch_size=1000)
    done = course(method, INPUTS, LABELS, Disjoint(1), Iid(1))
    net = Network(Backbone(FEATURES))
    torch.manual_seed(0)
    net.loaded(grown(snapshot(net), 6))
    start = net.head.weight.detach().clone()
    labels = torch.from_numpy(done.stream.number[LABELS])
    for _ in range(2):
        gradient = torch.autograd.grad(cross_entropy(net(INPUTS), labels), net.head.weight)[0]
        bias = torch.autograd.grad(cross_entropy(net(INPUTS), labels), net.head.bias)[0]
        with torch.no_grad():
            net.head.weight -= lr * (gradient + 0.01 * net.head.weight + mu * (net.head.weight - start))
            net.head.bias -= lr * (bias + 0.01 * net.head.bias + mu * net.head.bias)
    torch.testing.assert_close(done.states[-1].weights["head.weight"], net.head.weight.detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rounds", [1, 4])
def test_scaffold_with_one_client_and_one_step_is_sgd(rounds):
    settings = {"rounds": rounds, "epochs": 1, "batch_size": 1000}
    one = course(make(Scaffold, **settings), INPUTS, LABELS, Disjoint(2), Iid(1))
    two = course(make(Finetune, **settings), INPUTS, LABELS, Disjoint(2), Iid(1))
    for name, value in two.states[-1].weights.items():
        torch.testing.assert_close(one.states[-1].weights[name], value, rtol=1e-5, atol=1e-6)


def test_scaffolds_control_variates_are_the_gradients_of_the_clients_and_their_mean():
    """After one full-batch step (w_global - w_k) / lr is the gradient at w_global, weight decay included."""
    method = make(Scaffold, rounds=1, epochs=1, batch_size=1000)
    done = course(method, INPUTS, LABELS, Disjoint(1), Iid(3))
    net = Network(Backbone(FEATURES))
    torch.manual_seed(0)
    net.loaded(grown(snapshot(net), 6))
    gradients = []
    for client in range(3):
        indices = done.stream.indices(0, client)
        labels = torch.from_numpy(done.stream.number[LABELS[indices]])
        gradient = torch.autograd.grad(cross_entropy(net(INPUTS[indices]), labels), net.head.weight)[0]
        gradients.append(gradient + 0.01 * net.head.weight.detach())
        own = done.memories[-1][client]["control"]["head.weight"]
        torch.testing.assert_close(own, gradients[-1], rtol=1e-4, atol=1e-5)
    control = done.states[-1].control["head.weight"]
    torch.testing.assert_close(control, torch.stack(gradients).mean(dim=0), rtol=1e-4, atol=1e-5)


def test_scaffolds_second_round_steps_along_the_mean_gradient():
    """With full batches and one step per round, g_k - c_k + c removes what distinguishes clients at w_global."""
    method = make(Scaffold, rounds=2, epochs=1, batch_size=1000)
    done = course(method, INPUTS, LABELS, Disjoint(1), Iid(3))
    first, second = done.states
    steps = []
    for client in range(3):
        indices = done.stream.indices(0, client)
        labels = torch.from_numpy(done.stream.number[LABELS[indices]])
        net = Network(Backbone(FEATURES)).loaded(first.weights)
        gradient = torch.autograd.grad(cross_entropy(net(INPUTS[indices]), labels), net.head.weight)[0]
        steps.append(gradient + 0.01 * net.head.weight.detach())  # the corrections of the clients cancel in the mean
    expected = first.weights["head.weight"] - 0.1 * torch.stack(steps).mean(dim=0)
    torch.testing.assert_close(second.weights["head.weight"], expected, rtol=1e-4, atol=1e-5)


def test_scaffolds_server_moves_by_its_own_learning_rate():
    settings = {"rounds": 1, "epochs": 1, "batch_size": 1000}
    full, half = (
        course(make(Scaffold, server_lr=rate, **settings), INPUTS, LABELS, Disjoint(1), Iid(3)) for rate in (1.0, 0.5)
    )
    torch.manual_seed(0)
    net = Network(Backbone(FEATURES))
    start = grown(snapshot(net), 6)["head.weight"]
    moved = full.states[-1].weights["head.weight"] - start
    torch.testing.assert_close(half.states[-1].weights["head.weight"], start + moved / 2, rtol=1e-4, atol=1e-6)


def test_scaffold_refuses_momentum():
    def heavy(parameters, lr):
        return torch.optim.SGD(parameters, lr=lr, momentum=0.9)

    with pytest.raises(ConfigError, match=r"SCAFFOLD needs plain SGD, but method.optimizer has momentum: set it to 0"):
        make(Scaffold, optimizer=heavy)


def test_replay_is_the_mean_of_two_cross_entropies():
    net = Network(Backbone(2))
    net.loaded(grown(snapshot(net), 3))
    loss = Replay(net, sgd)
    batch = torch.randn(4, 2), torch.tensor([1, 2, 2, 1])
    loss.columns = torch.tensor([1, 2])
    current = loss.training_step(batch, 0)
    only = torch.randn(1, 2)
    loss.buffer = Samples(only, torch.tensor([0]))
    old = cross_entropy(net(only), torch.tensor([0]))  # over all classes: 0 is not in the scope of the task
    assert loss.training_step(batch, 0).item() == pytest.approx(((current + old) / 2).item(), rel=1e-6)


def test_dark_replay_by_hand():
    net = Network(Backbone(2))
    net.loaded(grown(snapshot(net), 3))
    loss = DarkReplay(net, sgd)
    loss.alpha, loss.beta = 0.3, 0.5
    batch = torch.randn(4, 2), torch.tensor([1, 2, 2, 1])
    current = loss.training_step(batch, 0)
    only = torch.randn(1, 2)
    loss.buffer = Buffer(only, torch.tensor([0]), torch.tensor([[1.0, -1.0]]), torch.tensor([2]))
    z = net(only)[0]
    mse = ((z[0] - 1) ** 2 + (z[1] + 1) ** 2) / 2  # the third class was not known when the sample was stored
    expected = current + 0.3 * mse + 0.5 * cross_entropy(z[None], torch.tensor([0]))
    assert loss.training_step(batch, 0).item() == pytest.approx(expected.item(), rel=1e-6)


def test_stored_logits_are_those_of_the_global_model_when_the_task_ended():
    method = make(DERpp, memory_size=1000, rounds=2)
    done = learned(method)
    ends = [done.states[1], done.states[3], done.states[5]]
    for client, memory in done.memories[-1].items():
        buffer = memory["buffer"]
        for task, end in enumerate(ends):
            indices = done.stream.indices(task, client)
            for row in INPUTS[indices]:
                (place,) = (buffer.inputs == row).all(dim=1).nonzero().flatten()
                classes = int(buffer.known[place])
                assert classes == done.stream.tasks[task].seen
                expected = method.classifier(end)(row[None])[0].detach()
                torch.testing.assert_close(buffer.logits[place, :classes], expected, rtol=1e-5, atol=1e-5)


BUDGET = 7
STORING = {"fedavg_er": (FedAvgER, "buffer"), "derpp": (DERpp, "buffer"), "fedicarl": (FediCaRL, "exemplars")}


@pytest.fixture(scope="module", params=STORING)
def crowded(request):
    """Twenty clients under alpha 0.05: some have no data of a task, some less than the budget."""
    kind, name = STORING[request.param]
    method = make(kind, memory_size=BUDGET, rounds=1, epochs=1)
    done = learned(method, Dirichlet(20, alpha=0.05, balance="capped"))
    assert (done.stream.sizes < BUDGET).any()
    assert (done.stream.sizes.sum(axis=0) > BUDGET).any()
    return done, name


def test_budgets_hold_after_every_task(crowded):
    done, name = crowded
    for task, memories in enumerate(done.memories):
        for client, memory in memories.items():
            held = sum(len(done.stream.indices(earlier, client)) for earlier in range(task + 1))
            assert (len(memory[name]) if name in memory else 0) <= min(BUDGET, held)
    assert max(len(memory[name]) for memory in done.memories[-1].values() if name in memory) == BUDGET


def test_replay_never_has_a_sample_of_another_client_or_of_a_task_to_come(crowded):
    done, name = crowded
    for task, memories in enumerate(done.memories):
        for client, memory in memories.items():
            own = np.concatenate([done.stream.indices(earlier, client) for earlier in range(task + 1)])
            rows = {tuple(row) for row in INPUTS[own].tolist()}
            stored = memory[name].inputs.tolist() if name in memory else []
            assert {tuple(row) for row in stored} <= rows
            assert len({tuple(row) for row in stored}) == len(stored)


def test_fedncm_takes_the_nearest_mean_of_the_pooled_data():
    """Found here by scikit-learn: of all class means, the nearest by cosine."""
    method = FedNCM(Backbone(FEATURES))
    done = learned(method, Dirichlet(7, alpha=0.1))
    scores = method.classifier(done.states[-1])(INPUTS)
    means = np.stack([INPUTS[label == LABELS].double().numpy().mean(axis=0) for label in done.stream.order])
    nearest = NearestNeighbors(n_neighbors=1, metric="cosine").fit(means)
    assert np.array_equal(scores.argmax(dim=1).numpy(), nearest.kneighbors(INPUTS.numpy(), return_distance=False)[:, 0])
