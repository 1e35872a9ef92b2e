import json
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from fcl_bench.errors import UserError
from fcl_bench.federation import Client, Clients, Federation, Participation
from fcl_bench.partition import Dirichlet
from fcl_bench.seeds import generator
from fcl_bench.stream import make_stream
from fcl_bench.temporal import SiBlurry
from fcl_bench.transport.in_process import InProcess
from fcl_bench.transport.wire import Wire

SAMPLES, CLASSES = 120, 6
LABELS = np.arange(SAMPLES) % CLASSES
INPUTS = torch.arange(SAMPLES * 2.0).reshape(SAMPLES, 2)


@dataclass(frozen=True)
class Reply:
    client: int
    noise: torch.Tensor


class Probe:
    """A method whose client functions tell what they saw."""

    message_classes = (Reply,)

    def look(self, client: Client):
        return Reply(client.id, torch.randn(3))

    def echo(self, client: Client, message):
        return message

    def count(self, client: Client):
        client.memory["calls"] = client.memory.get("calls", 0) + 1
        return client.memory["calls"]

    def report(self, client: Client):
        client.note(loss=client.id)
        if client.id < 2:
            client.note(rare=3)

    def registered(self, client: Client):
        inputs, labels = client.data.tensors
        return inputs, labels, (client.registration.known, client.registration.new)

    def samples(self, client: Client):
        return (
            tuple(torch.cat([inputs[:, 0] for inputs, _ in client.data.batches(7)]).tolist())
            if len(client.data)
            else ()
        )


def federation(transport=None, participation=None, clients=5, seed=3, **events) -> Federation:
    stream = make_stream(LABELS, LABELS, SiBlurry(3), Dirichlet(clients, alpha=0.5), seed=0)
    who = participation or Participation()
    return Federation(stream, INPUTS, LABELS, Probe, transport or InProcess(), who, seed, **events)


def opened(task=0, **settings) -> tuple[Probe, Clients]:
    method, whole = Probe(), federation(**settings)
    return method, whole.open(method, whole.stream.tasks[task])


def test_every_sample_reaches_exactly_one_client():
    whole, seen = federation(), Counter()
    for task in whole.stream.tasks:
        method = Probe()
        for reply in whole.open(method, task).map(method.samples):
            seen.update(int(value) // 2 for value in reply)
    assert seen == Counter(range(SAMPLES))


def test_labels_are_registered_numbers():
    whole, method = federation(), Probe()
    for task in whole.stream.tasks:
        for inputs, labels, (known, new) in whole.open(method, task).map(method.registered):
            original = LABELS[(inputs[:, 0] / 2).long().numpy()]
            assert [whole.stream.number[label] for label in original] == labels.tolist()
            assert sorted(set(labels.tolist())) == sorted(known + new)


def test_replies_come_lazily_and_an_exchange_is_always_carried_through():
    method, clients = opened()
    first = clients.map(method.count)
    assert next(first) == 1
    assert list(clients.map(method.count)) == [2] * 5  # the first exchange was finished before
    clients.map(method.count)
    clients.finish()
    assert [exchange.answered for exchange in clients.exchanges] == [5, 5, 5]


def test_traffic_is_what_crosses_the_door():
    lines = []
    method, clients = opened(on_exchange=lines.append)
    message = {"a": torch.zeros(10), "b": "four"}
    assert len(list(clients.map(method.echo, message))) == 5
    clients.finish()
    (line,) = lines
    assert (line.downlink_bytes, line.uplink_bytes) == (5 * 44, 5 * 44)
    assert (line.function, line.asked, line.answered, line.task, line.exchange) == ("echo", 5, 5, 0, 0)
    json.dumps(vars(line))


def test_participation_asks_a_share_of_the_clients_and_another_one_each_time():
    method, clients = opened(clients=20, participation=Participation(participation=0.6))
    asked = [{reply.client for reply in clients.map(method.look)} for _ in range(4)]
    assert [len(each) for each in asked] == [12] * 4
    assert len(set(map(frozenset, asked))) > 1


def test_dropped_clients_are_asked_but_never_answer():
    method, clients = opened(clients=100, participation=Participation(dropout=0.2))
    answers = list(clients.map(method.echo, torch.zeros(1)))
    (exchange,) = clients.exchanges
    assert exchange.asked == 100
    assert exchange.answered == len(answers)
    assert 65 <= len(answers) <= 93  # binomial(100, 0.8), beyond three standard deviations
    assert exchange.downlink_bytes == 400
    assert exchange.uplink_bytes == 4 * len(answers)


def test_a_draw_asks_at_least_one_client():
    asked, _ = Participation(participation=0.01).draw(5, generator(0))
    assert len(asked) == 1


@pytest.mark.parametrize("transport", [InProcess(), Wire()])
def test_randomness_depends_on_seed_task_exchange_and_client_only(transport):
    def noises(seed=3, task=0, exchange=0, arrival="ordered"):
        settings = {"seed": seed, "participation": Participation(arrival=arrival), "transport": transport}
        method, clients = opened(task=task, **settings)
        for _ in range(exchange):
            list(clients.map(method.look))
        return {reply.client: tuple(reply.noise.tolist()) for reply in clients.map(method.look)}

    reference = noises()
    torch.randn(100)
    assert noises() == reference
    assert noises(arrival="shuffled") == reference
    assert len(set(reference.values())) == 5
    for other in (noises(seed=4), noises(task=1), noises(exchange=1)):
        assert not set(other.values()) & set(reference.values())


def test_client_calls_leave_the_callers_randomness_alone():
    torch.manual_seed(0)
    expected = torch.randn(2)
    torch.manual_seed(0)
    method, clients = opened()
    list(clients.map(method.look))
    assert torch.equal(torch.randn(2), expected)


@pytest.mark.parametrize("transport", [InProcess(), Wire()])
def test_memory_is_private_kept_and_counted(transport):
    whole, method = federation(transport), Probe()
    for number, task in enumerate(whole.stream.tasks):
        assert list(whole.open(method, task).map(method.count)) == [number + 1] * 5
    assert whole.stored_bytes == 5 * 8


def test_a_function_clients_could_not_find_is_refused():
    _, clients = opened()
    for function in (lambda client: None, Probe().look, print):
        with pytest.raises(TypeError, match=r"Expected clients.map to get a function of Probe itself"):
            clients.map(function)


def test_a_reply_that_cannot_travel_is_named():
    class Bad(Probe):
        def reply(self, client):
            return [1, 2]

    method = Bad()
    stream = federation().stream
    whole = Federation(stream, INPUTS, LABELS, Bad, InProcess(), Participation(), seed=3)
    with pytest.raises(UserError, match=r"client 0 to reply in task 1 .* Expected the reply to be a tensor.*got list"):
        list(whole.open(method, whole.stream.tasks[0]).map(method.reply))


def test_tell_does_not_wait_for_anybody_to_ask():
    method, clients = opened()
    clients.tell(method.count)
    assert [exchange.answered for exchange in clients.exchanges] == [5]
    assert list(clients.map(method.count)) == [2] * 5


def test_notes_of_clients_are_averaged_and_those_of_the_server_added():
    lines = []
    method, clients = opened(on_exchange=lines.append)
    clients.tell(method.report)
    clients.note(norm=torch.tensor(0.5))
    clients.tell(method.look)
    clients.finish()
    assert [line.notes for line in lines] == [{"loss": 2.0, "rare": 3.0, "norm": 0.5}, {}]
    assert lines[0].uplink_bytes == 0  # diagnostics are not traffic


def test_a_note_without_an_exchange_is_refused():
    _, clients = opened()
    with pytest.raises(RuntimeError, match=r"Expected clients\.note to follow clients\.map"):
        clients.note(loss=1.0)


def test_public_samples_are_those_that_no_client_holds_of_classes_seen_so_far():
    stream = make_stream(LABELS, LABELS, SiBlurry(3, reserved=2), Dirichlet(5, alpha=0.5), seed=0)
    whole = Federation(stream, INPUTS, LABELS, Probe, InProcess(), Participation(), seed=3)
    method, held = Probe(), set()
    for task in stream.tasks:
        clients = whole.open(method, task)
        for reply in clients.map(method.samples):
            held |= {int(value) // 2 for value in reply}
        inputs, labels = clients.task.public.tensors
        public = (inputs[:, 0] / 2).long().numpy()
        assert np.bincount(labels).tolist() == [2] * task.seen
        assert [stream.number[label] for label in LABELS[public]] == labels.tolist()
    assert held.isdisjoint(public.tolist())
    assert held | set(public.tolist()) == set(range(SAMPLES))


@pytest.mark.parametrize(("tasks", "layout"), [(3, "fixed"), (4, "legacy")])  # the second leaves two classes out
def test_public_samples_of_all_classes_are_for_methods_that_declare_it(tasks, layout):
    class Foreseeing(Probe):
        sees_future_classes = True

    stream = make_stream(LABELS, LABELS, SiBlurry(tasks, layout=layout, reserved=2), Dirichlet(5, alpha=0.5), seed=0)
    whole = Federation(stream, INPUTS, LABELS, Foreseeing, InProcess(), Participation(), seed=3)
    order = stream.order.tolist()
    assert len(order) == (CLASSES if layout == "fixed" else 4)
    for task in stream.tasks:
        inputs, numbers = whole.open(Foreseeing(), task).task.public.tensors
        labels = LABELS[(inputs[:, 0] / 2).long().numpy()].tolist()
        assert sorted(labels) == sorted(2 * list(range(CLASSES)))
        known = order[: task.seen]
        assert numbers.tolist() == [known.index(label) if label in known else CLASSES + label for label in labels]


def test_without_reserved_samples_nothing_is_public():
    _, clients = opened()
    assert clients.task.public is None
