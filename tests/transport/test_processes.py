"""Clients in other processes: the same bits, memory that stays, errors that arrive, and nothing left behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import TINY, Command, assert_equal_runs

from fcl_bench.errors import UserError
from fcl_bench.federation import Federation, Participation
from fcl_bench.partition import IidClients
from fcl_bench.stream import make_stream
from fcl_bench.temporal import IidTasks
from fcl_bench.threads import SMALL, threads_fixed, threads_for
from fcl_bench.transport.processes import Processes, usable_cores

LABELS = np.arange(60) % 3
INPUTS = torch.arange(120.0).reshape(60, 2)
CLIENTS = 5


@dataclass(frozen=True)
class Seen:
    client: int
    process: int
    calls: int
    threads: int
    threads_for_large: int


class Probe:
    """A method whose client functions tell where they ran."""

    message_classes = (Seen,)

    def look(self, client):
        client.memory["calls"] = client.memory.get("calls", 0) + 1
        client.note(calls=client.memory["calls"])
        with threads_for(SMALL):
            large = torch.get_num_threads()
        return Seen(client.id, os.getpid(), client.memory["calls"], torch.get_num_threads(), large)

    def keep(self, client, message):
        client.memory["teacher"] = message

    def large(self, client):
        return torch.full((1 << 20,), float(client.id))

    def wrong(self, client):
        raise UserError(f"Expected more of client {client.id}.")

    def stumble_at_1(self, client):
        return self.stumble(client) if client.id == 1 else client.id

    def stumble(self, client):
        raise ValueError("not foreseen")

    def hang(self, client):
        """In client 1, where no timer of the process can end it."""
        client.memory["calls"] = client.memory.get("calls", 0) + 1
        if client.id == 1:
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
            time.sleep(600)
        return client.memory["calls"]

    def die(self, client):
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    transport = Processes(workers=2)
    yield transport
    transport.close()


def clients_of(transport: Processes, memories=None, who=None):
    stream = make_stream(LABELS, LABELS, IidTasks(2), IidClients(CLIENTS), seed=0)
    whole = Federation(stream, INPUTS, LABELS, Probe, transport, who or Participation(), seed=3)
    whole.restore(memories or {})
    method = Probe()
    return whole, method, whole.open(method, stream.tasks[0])


def test_a_client_stays_in_its_process_with_its_memory(processes: Processes) -> None:
    whole, method, clients = clients_of(processes)
    first = list(clients.map(method.look))
    second = list(clients.map(method.look))
    assert [seen.client for seen in first] == list(range(CLIENTS))
    assert [seen.process for seen in first] == [seen.process for seen in second]
    assert len({seen.process for seen in first}) == 2
    assert os.getpid() not in {seen.process for seen in first}
    assert {seen.calls for seen in second} == {2}
    assert whole.memories() == {client: {"calls": 2} for client in range(CLIENTS)}
    assert whole.stored_bytes == 8 * CLIENTS
    assert clients.exchanges[1].notes == {"calls": 2.0}


def test_memories_move_to_other_processes_and_shared_tensors_travel_once(processes: Processes) -> None:
    whole, method, clients = clients_of(processes)
    clients.tell(method.keep, {"w": torch.ones(1000)})
    memories = whole.memories()
    assert len({memory["teacher"]["w"].data_ptr() for memory in memories.values()}) == 2  # one per process
    _, method, clients = clients_of(processes, {client: {"calls": 7} for client in range(CLIENTS)})
    assert {seen.calls for seen in clients.map(method.look)} == {8}


def test_threads_are_those_of_the_server_as_sums_may_depend_on_their_number() -> None:
    transport = Processes(workers=2)
    with threads_fixed(3), closing(transport):
        _, method, clients = clients_of(transport)
        assert {(seen.threads, seen.threads_for_large) for seen in clients.map(method.look)} == {(1, 3)}
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)


def test_answers_wait_until_they_are_fetched(processes: Processes) -> None:
    """Four megabytes each: five of them do not fit into a pipe, and come in the order of the clients."""
    _, method, clients = clients_of(processes)
    assert [reply[0].item() for reply in clients.map(method.large)] == list(range(CLIENTS))


@pytest.mark.parametrize(
    ("function", "error", "text"),
    [
        ("wrong", UserError, r"^Expected more of client 0\.$"),
        ("die", UserError, r"ended while client 0 was at die \(exit code -9\)\. The same command goes on"),
        ("stumble", RuntimeError, "ValueError: not foreseen"),
    ],
)
def test_what_goes_wrong_at_a_client_arrives_and_ends_all_workers(
    function: str, error: type[Exception], text: str
) -> None:
    """An error for people stays one; of any other the traceback arrives."""
    transport = Processes(workers=1)
    _, method, clients = clients_of(transport)
    (worker,) = transport.process_ids
    with pytest.raises(error, match=text):
        list(clients.map(getattr(method, function)))
    assert not alive(worker)
    assert not transport.process_ids


def test_a_process_that_hangs_is_replaced_and_its_clients_remember(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fcl_bench.transport.processes.GRACE", 0.5)
    transport = Processes(workers=1)
    who = Participation(on_bad_reply="drop", timeout=1.0)
    whole, method, clients = clients_of(transport, {client: {"calls": 7} for client in range(CLIENTS)}, who)
    (before,) = transport.process_ids
    assert [seen.calls for seen in clients.map(method.look)] == [8] * CLIENTS
    with pytest.warns(UserWarning, match="client 1 to hang .* its process was replaced"):
        assert list(clients.map(method.hang)) == [9] * (CLIENTS - 1)
    (after,) = transport.process_ids
    assert after != before
    assert not alive(before)
    assert whole.stored_bytes == 8 * CLIENTS
    assert [seen.calls for seen in clients.map(method.look)] == [10, 9, 10, 10, 10]
    transport.close()


def test_what_goes_wrong_at_one_client_does_not_end_the_others(processes: Processes) -> None:
    _, method, clients = clients_of(processes, who=Participation(on_bad_reply="drop"))
    with pytest.warns(UserWarning, match="client 1 to stumble_at_1 .* it has raised ValueError: not foreseen"):
        assert list(clients.map(method.stumble_at_1)) == [0, 2, 3, 4]


@pytest.mark.parametrize("short", [("method=afcl",), ("method=fedicarl", "method.rounds=2", "method.epochs=1")])
def test_a_run_is_the_same_to_the_bit(tiny: Command, output_dir: Path, short: tuple[str, ...]) -> None:
    here = tiny(*short)
    there = tiny(*short, "transport=processes", "transport.workers=2", f"output_dir={output_dir}-elsewhere")
    assert_equal_runs(here, there)


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_is_left_behind(tmp_path: Path, cache_dir: Path, end: signal.Signals) -> None:
    folders = (f"output_dir={tmp_path}", f"cache_dir={cache_dir}")
    slow = ("method=afcl", "method.form=recursive", "dataset.features=1280", "stream.tasks=60", "partition.clients=20")
    words = (*TINY, "dataset.classes=60", *slow, "transport=processes", "transport.workers=2", *folders)
    run = subprocess.Popen(
        [sys.executable, "-m", "fcl_bench", *words],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # who runs the tests may ignore Ctrl-C
    )
    try:
        workers = wait_for(lambda: two_below(run.pid), seconds=120)
        wait_for(lambda: list(tmp_path.rglob("exchanges.jsonl")), seconds=120)
        run.send_signal(end)
        run.wait(timeout=60)
        wait_for(lambda: not any(alive(worker) for worker in workers), seconds=60)
        if end == signal.SIGINT:
            assert "Interrupted" in run.stderr.read()
    finally:
        run.kill()


def two_below(process: int) -> list[int]:
    """The workers, which a fork server has begun, with this server itself."""
    found = []
    for server in children(process):
        with suppress(OSError):  # it has ended
            if "forkserver" in Path(f"/proc/{server}/cmdline").read_text():
                found += [server, *children(server)]
    return found if len(found) >= 3 else []


def children(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for children in tasks for child in children.read_text().split()]


def alive(process: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def wait_for(condition, seconds: float):
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
    return value
