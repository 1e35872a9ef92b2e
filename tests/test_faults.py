"""Faults of a federation: what is drawn, what clients and methods meet, and what records say."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from conftest import TINY, Command, command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scenarios import ANY

from fcl_bench.config.compose import build, composed
from fcl_bench.decoding import decode
from fcl_bench.faults import Participation
from fcl_bench.federation import ON_THE_WAY, Federation
from fcl_bench.message import encode
from fcl_bench.partition import Dirichlet
from fcl_bench.seeds import generator
from fcl_bench.stream import make_stream
from fcl_bench.temporal import SiBlurry
from fcl_bench.transport.in_process import InProcess
from fcl_bench.transport.wire import Wire

LABELS = np.arange(120) % 6
INPUTS = torch.arange(240.0).reshape(120, 2)
CLIENTS = 5
TASKS = 3
SCENARIOS = ("ideal", "faulty", "late", "churn")


class Probe:
    """A method whose clients count their calls and tell the count."""

    takes_late_replies = True

    def count(self, client):
        client.memory["calls"] = client.memory.get("calls", 0) + 1
        return client.id, client.memory["calls"]

    def other(self, client):
        return client.id


class Impatient(Probe):
    takes_late_replies = False


def federation(who, transport=None, kind=Probe, clients=CLIENTS, seed=3):
    stream = make_stream(LABELS, LABELS, SiBlurry(TASKS), Dirichlet(clients, alpha=0.5), seed=0)
    return Federation(stream, INPUTS, LABELS, kind, transport or InProcess(), who, seed)


def rounds(whole, kind=Probe, tasks=range(TASKS), everyone=False):
    """One exchange in each task: the replies, and its account."""
    done = []
    for task in tasks:
        method = kind()
        clients = whole.open(method, whole.stream.tasks[task])
        replies = list((clients.everyone if everyone else clients).map(method.count))
        clients.finish()
        done.append((replies, clients.exchanges[0]))
    return done


@given(ANY, st.integers(0, 2**32), st.integers(1, 20), st.integers(1, 6))
def test_who_is_there_is_drawn_once_for_all(who, seed, clients, tasks):
    there = [set(who.there(seed, task, clients, tasks).tolist()) for task in range(tasks)]
    assert there == [set(who.there(seed, task, clients, tasks).tolist()) for task in range(tasks)]
    stays = replace(who, away=0.0)
    joined = [set(stays.there(seed, task, clients, tasks).tolist()) for task in range(tasks)]
    assert joined[-1] == set(range(clients)) or tasks == 1
    assert all(earlier <= later for earlier, later in pairwise(joined))
    assert all(present <= able for present, able in zip(there, joined, strict=True))


@pytest.mark.parametrize("fault", ["lost", "late", "twice", "away", "forget", "join_later"])
def test_faults_are_as_frequent_as_they_are_set_and_do_not_hang_together(fault):
    who = Participation(lost=0.2, late=0.2, twice=0.2, away=0.2, forget=0.2, join_later=0.2)
    everybody = np.arange(2000)
    fates = who.fates(everybody, True, seed=1, task=4, exchange=0)
    away = replace(who, join_later=0.0).there(1, 4, 2000, 6)
    struck = {
        "lost": fates.lost,
        "late": set(fates.late) | fates.lost,  # of an answer that is lost nobody knows whether it was late
        "twice": fates.twice,
        "away": set(everybody) - set(away.tolist()),
        "forget": who.forgetting(1, 4, 2000),
        "join_later": set(everybody) - set(replace(who, away=0.0).there(1, 0, 2000, 6).tolist()),
    }
    expected = 0.36 if fault == "late" else 0.2
    assert len(struck[fault]) / 2000 == pytest.approx(expected, abs=0.05)
    for other in struck:
        if {fault, other} != {"late", "lost"} and other != fault:
            share = len(struck[fault] & struck[other]) / len(struck[other])
            assert share == pytest.approx(expected, abs=0.1), other


def test_without_faults_an_exchange_is_what_it_was():
    """The draw of earlier versions, as numpy makes it."""
    who = Participation(participation=0.6, dropout=0.3)
    fates = who.fates(np.arange(20), False, seed=3, task=1, exchange=2)
    random = generator(3, 1, 2, "participation")
    asked = random.permutation(20)[:12]
    assert fates.asked.tolist() == asked.tolist()
    assert fates.arriving == sorted(asked[random.random(12) >= 0.3].tolist())


def test_everyone_is_asked_whatever_the_participation():
    whole = federation(Participation(participation=0.2), clients=20)
    (replies, account), *_ = rounds(whole, everyone=True)
    assert sorted(client for client, _ in replies) == list(range(20))
    assert account.asked == 20
    (replies, _), *_ = rounds(federation(Participation(participation=0.2), clients=20))
    assert len(replies) == 4


def test_who_drops_out_has_done_nothing_and_whose_answer_is_lost_has_done_all():
    dropped = federation(Participation(dropout=0.999999))
    ((replies, account),) = rounds(dropped, tasks=[0])
    assert replies == []
    assert dropped.memories() == {}
    assert (account.lost, account.client_seconds) == (CLIENTS, 0)
    lost = federation(Participation(lost=1.0))
    ((replies, account),) = rounds(lost, tasks=[0])
    assert replies == []
    assert lost.memories() == {client: {"calls": 1} for client in range(CLIENTS)}
    assert lost.stored_bytes == 8 * CLIENTS
    assert (account.answered, account.lost, account.uplink_bytes) == (0, CLIENTS, 0)
    assert account.client_seconds > 0


def test_a_late_answer_comes_with_those_to_the_same_question_and_is_counted_then():
    whole = federation(Participation(late=1.0, delay=1))
    method = Probe()
    first, second, last = whole.stream.tasks
    clients = whole.open(method, first)
    assert list(clients.map(method.count)) == []
    assert list(clients.map(method.count)) == []  # in the same task it does not come
    clients = whole.open(method, second)
    assert list(clients.map(method.other)) == []
    assert list(clients.map(method.count)) == [(client, calls) for calls in (1, 2) for client in range(CLIENTS)]
    clients.finish()
    assert [(each.late, each.lost, each.uplink_bytes) for each in clients.exchanges] == [(0, 0, 0), (10, 0, 10 * 16)]
    clients = whole.open(method, last)
    assert list(clients.map(method.count)) == [(client, 3) for client in range(CLIENTS)]
    clients.finish()
    assert (clients.exchanges[0].late, clients.exchanges[0].lost) == (5, 5)  # there is no task in which these can come


def test_a_method_that_cannot_take_late_answers_has_lost_them():
    done = rounds(federation(Participation(late=1.0, delay=1), kind=Impatient), Impatient)
    assert [replies for replies, _ in done] == [[]] * TASKS
    assert [(account.lost, account.late) for _, account in done] == [(CLIENTS, 0)] * TASKS


def test_an_answer_that_comes_twice_is_given_to_the_method_once():
    done = rounds(federation(Participation(twice=1.0)))
    for calls, (replies, account) in enumerate(done, start=1):
        assert replies == [(client, calls) for client in range(CLIENTS)]
        assert (account.answered, account.double) == (CLIENTS, CLIENTS)
        assert account.uplink_bytes == 2 * CLIENTS * 16


@pytest.mark.parametrize("transport", [InProcess, Wire])
def test_a_client_forgets_when_a_task_opens_but_not_when_it_is_resumed(transport):
    whole = federation(Participation(forget=1.0), transport())
    done = rounds(whole)
    assert [replies for replies, _ in done] == [[(client, 1) for client in range(CLIENTS)]] * TASKS
    method = Probe()
    resumed = whole.open(method, whole.stream.tasks[2], yielded=1, exchanges=1)
    assert list(resumed.map(method.count)) == [(client, 2) for client in range(CLIENTS)]


def test_a_client_that_is_not_there_is_not_asked():
    who = Participation(join_later=0.5, away=0.3)
    whole = federation(who, clients=30)
    for task, (replies, account) in enumerate(rounds(whole)):
        there = who.there(whole.seed, task, 30, TASKS)
        assert [client for client, _ in replies] == there.tolist()
        assert account.asked == len(there) < 30


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ANY, st.booleans(), st.booleans())
def test_every_client_that_is_asked_answers_at_once_or_later_or_is_lost(who, everyone, patient):
    """And a run that goes on in another process and over another transport after each task meets the same."""
    kind = Probe if patient else Impatient
    whole = rounds(federation(who, kind=kind), kind, everyone=everyone)
    accounts = [account for _, account in whole]
    sums = {name: sum(getattr(each, name) for each in accounts) for name in ("asked", "answered", "late", "lost")}
    assert sums["asked"] == sums["answered"] + sums["late"] + sums["lost"]
    assert sum(len(replies) for replies, _ in whole) == sums["answered"] + sums["late"]
    memories, pieces = {}, []
    for task in range(TASKS):
        part = federation(who, Wire(), kind)
        part.restore(decode(encode(memories), {}))
        pieces += rounds(part, kind, [task], everyone)
        memories = part.memories()
    assert [replies for replies, _ in pieces] == [replies for replies, _ in whole]
    assert [replace(each, client_seconds=0) for _, each in pieces] == [
        replace(each, client_seconds=0) for each in accounts
    ]


def test_answers_on_their_way_are_no_memory_of_a_client():
    whole = federation(Participation(late=1.0, delay=1))
    rounds(whole, tasks=[0])
    assert len(whole.memories()[ON_THE_WAY]) == CLIENTS
    new = federation(Participation(late=1.0, delay=1))
    new.restore(whole.memories())
    assert new.stored_bytes == 8 * CLIENTS
    assert ON_THE_WAY not in new.transport.memories()


def test_a_scenario_is_part_of_what_a_run_is_and_of_what_its_record_says(tiny: Command) -> None:
    runs = {name: tiny("method=fedncm", f"federation={name}", "partition.clients=6") for name in SCENARIOS}
    assert len({run.result["run_id"] for run in runs.values()}) == len(SCENARIOS)
    for name, run in runs.items():
        accounts = run.exchanges
        metrics = run.result["metrics"]
        for fault in ("lost", "late", "double"):
            assert metrics[f"{fault}_answers"] == sum(each[fault] for each in accounts)
        assert ("answers lost / late / double" in run.out) == (name in ("faulty", "late"))
        assert run.result["config"]["federation"] == dict(composed(f"federation={name}", "method=fedncm").federation)
    assert [runs["ideal"].result["metrics"][f"{fault}_answers"] for fault in ("lost", "late", "double")] == [0, 0, 0]
    assert runs["faulty"].result["metrics"]["lost_answers"] > 0
    assert runs["late"].result["metrics"]["late_answers"] > 0
    assert sum(each["asked"] for each in runs["churn"].exchanges) < 3 * 6


@pytest.mark.parametrize("name", SCENARIOS)
def test_participation_and_dropout_go_with_every_scenario(name):
    config = composed("method=afcl", f"federation={name}", "federation.participation=0.5", "federation.dropout=0.3")
    who = build(config.federation)
    assert (who.participation, who.dropout) == (0.5, 0.3)


@pytest.mark.parametrize("setting", ["federation=late", "federation=faulty"])
def test_late_and_double_answers_are_refused_where_only_sums_are_seen(tmp_path, cache_dir, setting):
    words = (*TINY, f"output_dir={tmp_path / 'runs'}", f"cache_dir={cache_dir}", "method=afcl")
    done = command(*words, "privacy=secure_sum", setting)
    assert done.code == 2
    assert "Expected no late and no double answers with privacy=secure_sum" in done.err
    assert not (tmp_path / "runs").exists()


def test_lost_answers_and_clients_that_come_and_go_are_recovered_behind_masks(tiny: Command) -> None:
    words = ("method=fedncm", "partition.clients=12", "federation.dropout=0.1", "federation.lost=0.1")
    words = (*words, "federation.away=0.2", "federation.arrival=shuffled")
    plain, secret = tiny(*words), tiny(*words, "privacy=secure_sum", "privacy.neighbours=10")
    assert (plain.code, secret.code) == (0, 0), secret.err
    np.testing.assert_array_equal(plain.predictions, secret.predictions)
    assert plain.result["metrics"]["lost_answers"] == secret.result["metrics"]["lost_answers"] > 0


def test_a_first_task_with_nobody_leaves_a_model_to_be_scored(tiny: Command) -> None:
    for method in ("afcl", "fedncm", "joint"):
        done = tiny(f"method={method}", "federation.join_later=1.0")
        assert done.code == 0, done.err
        assert torch.isfinite(torch.tensor(done.result["curves"]["average_accuracy"])).all()
