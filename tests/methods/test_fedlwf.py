"""FedLwF: who learns from which teacher, and what the teacher costs."""

import torch
from conftest import course
from making import INPUTS, LABELS, accuracy_on_the_first_task, learned, make, room_for_both, server_random

from fcl_bench import Backbone, Task, grown
from fcl_bench.federation import Participation
from fcl_bench.message import encode
from fcl_bench.methods.fedlwf import FedLwF
from fcl_bench.methods.finetune import Finetune
from fcl_bench.partition import Dirichlet, IidClients
from fcl_bench.temporal import Disjoint, IidTasks
from fcl_bench.traffic import size


def test_without_distillation_it_is_finetune():
    """Up to rounding, with full batches: what is drawn in a client call depends on the number of exchanges before."""
    plain = learned(make(Finetune, batch_size=1000)).states[-1]
    without = learned(make(FedLwF, batch_size=1000, distillation=0.0)).states[-1]
    torch.testing.assert_close(plain, without, rtol=1e-5, atol=1e-6)
    usual = learned(make(FedLwF, batch_size=1000)).states[-1]
    assert not torch.allclose(plain["head.weight"], usual["head.weight"], rtol=1e-3)


def test_the_teacher_is_sent_once_per_task_and_counted():
    done = learned(make(FedLwF, rounds=3))
    names = [(exchange.task, exchange.function) for exchange in done.exchanges]
    assert (
        names
        == [(0, "train")] * 3 + [(1, "keep_teacher")] + [(1, "train")] * 3 + [(2, "keep_teacher")] + [(2, "train")] * 3
    )
    for exchange, end in zip((done.exchanges[3], done.exchanges[7]), (done.states[2], done.states[5]), strict=True):
        assert exchange.downlink_bytes == 3 * size(end)
        assert exchange.uplink_bytes == 0
    assert encode(done.memories[-1][0]["teacher"]) == encode(done.states[5])


def test_absent_classes_are_those_seen_before_and_not_in_the_task():
    task = Task(index=2, registrations=(), known=(1, 4), new=(5, 6), seen=7)
    assert make(FedLwF).columns(task).tolist() == [0, 2, 3]
    assert make(FedLwF, distil="known").columns(task) is None


def test_on_disjoint_streams_absent_classes_are_the_known_ones():
    one, two = (learned(make(FedLwF, distil=distil), temporal=Disjoint(3)).states[-1] for distil in ("absent", "known"))
    assert encode(one) == encode(two)


def test_where_no_class_is_absent_it_is_finetune():
    """Every task has all classes: up to rounding, with full batches, as drawn numbers depend on exchanges before."""
    spread = {"spatial": IidClients(3), "temporal": IidTasks(3)}
    plain = learned(make(Finetune, batch_size=1000), **spread).states[-1]
    absent = learned(make(FedLwF, batch_size=1000), **spread).states[-1]
    known = learned(make(FedLwF, batch_size=1000, distil="known"), **spread).states[-1]
    torch.testing.assert_close(absent, plain, rtol=1e-5, atol=1e-6)
    assert not torch.allclose(known["head.weight"], plain["head.weight"], rtol=1e-3)


def test_a_step_of_a_client_by_hand():
    """One step on a full batch of the second task: cross-entropy over the task, distillation over what is absent."""
    method = make(FedLwF, rounds=1, epochs=1, batch_size=1000, lr=0.5, optimizer=torch.optim.SGD)
    done = learned(method, IidClients(1))
    task = done.stream.tasks[1]
    absent = sorted(set(range(task.seen)) - set(task.classes))
    assert absent
    assert task.known
    before, after = done.states[0], done.states[1]
    rows = done.stream.indices(1, 0)
    inputs, labels = INPUTS[rows], torch.from_numpy(done.stream.number[LABELS[rows]])
    server_random(1)
    start = grown(before, task.seen)
    weight, bias = (start[f"head.{name}"].clone().requires_grad_() for name in ("weight", "bias"))
    logits = inputs @ weight.T + bias
    taught = inputs @ before["head.weight"].T + before["head.bias"]
    present = sorted(task.classes)
    positions = torch.tensor([present.index(label) for label in labels.tolist()])
    chosen = logits[:, present].log_softmax(dim=1).gather(1, positions[:, None])
    soft = (taught[:, absent] / 2).softmax(dim=1)
    distilled = -(soft * (logits[:, absent] / 2).log_softmax(dim=1)).sum(dim=1)
    (-chosen.mean() + 3 * distilled.mean()).backward()
    torch.testing.assert_close(after["head.weight"], (weight - 0.5 * weight.grad).detach(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(after["head.bias"], (bias - 0.5 * bias.grad).detach(), rtol=1e-4, atol=1e-5)


def test_what_is_absent_costs_eight_bytes_a_class_and_nothing_else():
    absent, known = (learned(make(FedLwF, rounds=3, distil=distil)) for distil in ("absent", "known"))
    for one, two in zip(absent.exchanges, known.exchanges, strict=True):
        task = absent.stream.tasks[one.task]
        columns = task.seen - len(task.classes) if one.function == "train" else 0
        assert one.downlink_bytes == two.downlink_bytes + 3 * 8 * columns
        assert one.uplink_bytes == two.uplink_bytes


def test_it_forgets_less_than_finetune():
    inputs = room_for_both()
    right = {}
    for kind in (Finetune, FedLwF):
        method = make(kind, Backbone(20), ce_scope="seen", rounds=10, epochs=3)
        done = course(method, inputs, LABELS, Disjoint(2), IidClients(2))
        right[kind] = accuracy_on_the_first_task(method, inputs, done)
    assert right[FedLwF] > right[Finetune] + 0.05, right


def test_the_published_variant_counts_clients_equally():
    """One round from one start: each client's own model is written down by the client."""
    models = []

    class Listening(FedLwF):
        def train(self, client, received):
            update = super().train(client, received)
            models.append(update.weights["head.weight"].double())
            return update

    unequal = Dirichlet(3, alpha=0.3, balance="capped")
    done = learned(make(Listening, rounds=1), unequal, Disjoint(1))
    sizes = torch.from_numpy(done.stream.sizes[0]).double()
    assert len(set(sizes.tolist())) == 3
    for variant, shares in (("corrected", sizes / sizes.sum()), ("target_repo", torch.full((3,), 1 / 3))):
        found = learned(make(FedLwF, variant=variant, rounds=1), unequal, Disjoint(1)).states[-1]
        expected = (torch.stack(models) * shares.view(3, 1, 1)).sum(dim=0).float()
        torch.testing.assert_close(found["head.weight"], expected)


def test_a_client_that_missed_the_teacher_goes_on_with_what_it_has():
    done = learned(make(FedLwF), who=Participation(participation=0.4, dropout=0.4))
    teachers = [done.memories[-1].get(client, {}).get("teacher") for client in range(3)]
    assert any(teacher is None for teacher in teachers) or len({encode(teacher) for teacher in teachers}) > 1
    assert all(value.isfinite().all() for value in done.states[-1].values())
