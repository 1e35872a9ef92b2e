"""FedLwF: who learns from which teacher, and what the teacher costs."""

import numpy as np
import torch
from conftest import course

from fcl_bench.backbone import Backbone
from fcl_bench.federation import Participation
from fcl_bench.local import FabricFit
from fcl_bench.message import encode, size
from fcl_bench.methods.fedlwf import FedLwF
from fcl_bench.methods.finetune import Finetune
from fcl_bench.partition import Dirichlet, Iid
from fcl_bench.temporal import Disjoint, SiBlurry
from fcl_bench.transport.in_process import InProcess

LABELS = np.arange(120) % 6
RANDOM = torch.Generator().manual_seed(0)
INPUTS = torch.randn(120, 5, generator=RANDOM) + 2 * torch.randn(6, 5, generator=RANDOM)[LABELS]


def sgd(parameters, lr):
    return torch.optim.SGD(parameters, lr=lr, momentum=0.9, weight_decay=0.01)


def make(kind=FedLwF, features=5, **settings):
    own = {"fit": FabricFit(accelerator="cpu"), "optimizer": sgd, "rounds": 3, "epochs": 2, "lr": 0.1}
    return kind(Backbone(features), **own | settings)


def learned(method, spatial=None, temporal=None, who=None):
    return course(method, INPUTS, LABELS, temporal or SiBlurry(3), spatial or Dirichlet(3, alpha=0.5), who)


def test_without_distillation_it_is_finetune_to_the_bit():
    """But for one thing: what is drawn in a client call depends on the number of exchanges before it."""
    plain, lwf = make(Finetune, batch_size=1000), make(distillation=0.0, batch_size=1000)
    one, two = (learned(method).states[-1].weights for method in (plain, lwf))
    assert all(torch.allclose(one[name], two[name], rtol=1e-5, atol=1e-6) for name in one)
    other = learned(make(batch_size=1000)).states[-1].weights
    assert not torch.allclose(one["head.weight"], other["head.weight"], rtol=1e-3)


def test_the_teacher_is_sent_once_per_task_and_counted():
    done = learned(make())
    names = [(exchange.task, exchange.function) for exchange in done.exchanges]
    assert (
        names
        == [(0, "train")] * 3 + [(1, "keep_teacher")] + [(1, "train")] * 3 + [(2, "keep_teacher")] + [(2, "train")] * 3
    )
    for exchange, end in zip((done.exchanges[3], done.exchanges[7]), (done.states[2], done.states[5]), strict=True):
        assert exchange.downlink_bytes == 3 * size(end.weights)
        assert exchange.uplink_bytes == 0
    assert encode(done.memories[-1][0]["teacher"]) == encode(done.states[5].weights)


def test_it_forgets_less_than_finetune():
    """Two tasks of three classes in twenty dimensions, where there is room for both."""
    inputs = 3 * torch.eye(20)[LABELS] + torch.randn(120, 20, generator=torch.Generator().manual_seed(0))
    old = {}
    for kind in (Finetune, FedLwF):
        method = make(kind, 20, ce_scope="seen", rounds=10, epochs=3)
        done = course(method, inputs, LABELS, Disjoint(2), Iid(2))
        first = np.isin(done.stream.number[LABELS], (0, 1, 2))
        right = torch.from_numpy(done.stream.number[LABELS])[first]
        old[kind] = float((method.classifier(done.states[-1])(inputs[first]).argmax(dim=1) == right).float().mean())
    assert old[FedLwF] > old[Finetune] + 0.05, old


def test_the_published_variant_counts_clients_equally():
    """One round from one start: each client's own model is found by asking it alone."""
    unequal = Dirichlet(3, alpha=0.3, balance="capped")
    done = {name: learned(make(variant=name, rounds=1), unequal, Disjoint(1)) for name in ("corrected", "target_repo")}
    sizes = torch.from_numpy(done["corrected"].stream.sizes[0]).double()
    assert len(set(sizes.tolist())) == 3
    method = make(rounds=1)
    alone = []

    class Listener(InProcess):
        def map(self, request, clients):
            for reply, seconds in super().map(request, clients):
                alone.append(reply.weights["head.weight"].double())
                yield reply, seconds

    course(method, INPUTS, LABELS, Disjoint(1), unequal, transport=Listener())
    stacked = torch.stack(alone)
    for name, shares in (("corrected", sizes / sizes.sum()), ("target_repo", torch.full((3,), 1 / 3))):
        expected = (stacked * shares.view(3, 1, 1)).sum(dim=0).float()
        torch.testing.assert_close(done[name].states[-1].weights["head.weight"], expected)


def test_a_client_that_missed_the_teacher_goes_on_with_what_it_has():
    done = learned(make(), who=Participation(participation=0.4, dropout=0.4))
    teachers = [memory.get("teacher") for memory in done.memories[-1].values()]
    assert any(teacher is None for teacher in teachers) or len({encode(teacher) for teacher in teachers}) > 1
    assert all(value.isfinite().all() for value in done.states[-1].weights.values())
