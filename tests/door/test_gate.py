"""Who is let in: what becomes of broken replies, of clients that fail or hang, and of answers that come twice."""

import time
import warnings
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pytest
import torch
from conftest import Command
from torch import Tensor

from fcl_bench.checks.hostile import Hostile
from fcl_bench.door import Kind, Range, Shape
from fcl_bench.door.gate import MOST_WARNINGS
from fcl_bench.errors import UserError
from fcl_bench.federation import Federation, Participation
from fcl_bench.methods.afcl import AFCL
from fcl_bench.methods.finetune import Finetune
from fcl_bench.partition import IidClients
from fcl_bench.privacy.secure_sum import SecureSum
from fcl_bench.stream import make_stream
from fcl_bench.temporal import IidTasks
from fcl_bench.transport import Answer
from fcl_bench.transport.in_process import InProcess
from fcl_bench.transport.wire import Wire

LABELS = np.arange(60) % 3
INPUTS = torch.arange(120.0).reshape(60, 2)
CLIENTS = 4
DROP = Participation(on_bad_reply="drop")


@dataclass(frozen=True)
class Vote:
    numbers: Annotated[Tensor, Shape(2), Kind(torch.int64), Range(0)]


class Probe:
    """A method whose client 1 does what the test says; the others are honest."""

    adds_whole_numbers = True
    message_classes = (Vote,)

    def vote(self, client, deed="honest") -> Vote:
        client.memory["calls"] = client.memory.get("calls", 0) + 1
        if client.id == 1 or deed.startswith("all "):
            return getattr(self, deed.removeprefix("all ").replace(" ", "_"))(client)
        return self.honest(client)

    def honest(self, client):
        return Vote(torch.tensor([1, client.id]))

    def negative(self, client):
        return Vote(torch.tensor([1, -1]))

    def short(self, client):
        return Vote(torch.tensor([1]))

    def large(self, client):
        return Vote(torch.tensor([3000, 4000]))

    def stumble(self, client):
        raise ValueError("not foreseen")

    def fill_memory(self, client):
        torch.empty(1 << 60)

    def fill_python(self, client):
        raise MemoryError

    def wrong_setting(self, client):
        raise UserError("Expected another setting.")

    def shout(self, client):
        raise ValueError("\x1b[31m" + "loud\n" * 1000)

    def hang(self, client):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                time.sleep(0.01)
            except Exception:
                continue


def asked(deed: str, who: Participation = DROP, transport: Any = None, times: int = 1, **settings: Any) -> Any:
    """The votes of the last exchange, the account of all, the federation and the warnings."""
    stream = make_stream(LABELS, LABELS, IidTasks(1), IidClients(CLIENTS), seed=0)
    whole = Federation(stream, INPUTS, LABELS, Probe, transport or InProcess(), who, seed=3, **settings)
    method = Probe()
    clients = whole.open(method, stream.tasks[0])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(times):
            votes = [vote.numbers.tolist() for vote in clients.map(method.vote, deed)]
        clients.finish()
    return votes, clients.exchanges, whole, [str(each.message) for each in said]


@pytest.mark.parametrize("transport", [InProcess, Wire])
@pytest.mark.parametrize(
    ("deed", "reason"),
    [
        ("negative", "numbers has the number -1, expected at least 0"),
        ("short", "numbers has the shape (1,), expected (2)"),
        ("stumble", "it has raised ValueError: not foreseen"),
        ("fill_python", "it has raised MemoryError"),
    ],
)
def test_a_bad_reply_is_dropped_named_and_counted_and_the_others_are_given(
    transport: type, deed: str, reason: str
) -> None:
    votes, (exchange,), _, said = asked(deed, transport=transport())
    assert votes == [[1, 0], [1, 2], [1, 3]]
    assert (exchange.asked, exchange.answered, exchange.rejected_replies) == (4, 3, 1)
    assert exchange.rejected == {"1": reason}
    assert exchange.uplink_bytes == 3 * 16
    assert said == [f"The reply of client 1 to vote in task 1 was dropped: {reason}."]


def test_what_a_client_says_is_shown_in_one_short_line_without_control_characters() -> None:
    _, (exchange,), _, (said,) = asked("shout")
    assert exchange.rejected["1"].startswith("it has raised ValueError: ?[31mloud loud")
    assert len(said) < 400
    assert said.isprintable()


def test_memory_that_runs_out_at_one_client_is_its_own_failure() -> None:
    votes, (exchange,), _, _ = asked("fill memory")
    assert len(votes) == 3
    assert "RuntimeError" in exchange.rejected["1"]


def test_a_client_that_fails_remembers_what_it_did_before() -> None:
    _, _, whole, _ = asked("stumble", times=3)
    assert whole.memories() == {client: {"calls": 3} for client in (0, 2, 3)}


@pytest.mark.parametrize("transport", [InProcess, Wire])
def test_a_client_that_hangs_is_interrupted(transport: type) -> None:
    start = time.monotonic()
    votes, (exchange,), whole, _ = asked("hang", Participation(on_bad_reply="drop", timeout=0.2), transport())
    assert time.monotonic() - start < 10
    assert len(votes) == 3
    assert exchange.rejected == {"1": "it took longer than federation.timeout=0.2 seconds"}
    assert whole.stored[1] == 0


def test_where_all_hang_nobody_answers_and_the_run_goes_on() -> None:
    votes, (exchange,), _, _ = asked("all hang", Participation(on_bad_reply="drop", timeout=0.05))
    assert votes == []
    assert exchange.rejected_replies == CLIENTS


@pytest.mark.parametrize("deed", ["negative", "stumble"])
def test_stop_ends_it_in_one_sentence(deed: str) -> None:
    with pytest.raises(UserError, match=r"^The reply of client 1 to vote in task 1 is not usable: .*\.$"):
        asked(deed, Participation(on_bad_reply="stop"))


def test_raise_shows_where_an_exception_comes_from() -> None:
    with pytest.raises(ValueError, match="not foreseen"):
        asked("stumble", Participation(on_bad_reply="raise"))


@pytest.mark.parametrize("policy", ["drop", "stop", "raise"])
def test_what_concerns_the_settings_is_always_told_as_it_is(policy: Any) -> None:
    with pytest.raises(UserError, match=r"^Expected another setting\.$"):
        asked("wrong_setting", Participation(on_bad_reply=policy))


@pytest.mark.parametrize(("deed", "error"), [("all stumble", ValueError), ("all fill_python", MemoryError)])
def test_where_all_clients_fail_the_mistake_is_in_the_method(deed: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        asked(deed)


def test_where_no_reply_was_ever_as_declared_the_declaration_is_wrong() -> None:
    with pytest.raises(UserError, match="No reply to vote of Probe was as declared; that of the first client: numbers"):
        asked("all short")


def test_answers_that_come_twice_or_from_strangers_are_not_given() -> None:
    class Twice(InProcess):
        def map(self, call, clients):
            for answer in super().map(call, clients):
                yield answer
                yield answer
            yield Answer(9, Vote(torch.tensor([5, 5])), 0.0, 0, {})

    votes, (exchange,), _, _ = asked("honest", transport=Twice())
    assert votes == [[1, client] for client in range(CLIENTS)]
    assert (exchange.answered, exchange.rejected_replies) == (4, 5)
    assert set(exchange.rejected.values()) == {"it has answered before, or was not asked"}


def test_a_norm_can_be_bounded() -> None:
    votes, (exchange,), _, _ = asked("large", Participation(on_bad_reply="drop", max_norm=4000.0))
    assert len(votes) == 3
    assert exchange.rejected == {"1": "its norm is 5e+03, more than federation.max_norm=4000"}
    assert len(asked("large", Participation(on_bad_reply="drop", max_norm=5000.0))[0]) == 4


def test_warnings_come_to_an_end() -> None:
    _, exchanges, _, said = asked("negative", times=MOST_WARNINGS + 5)
    assert sum(exchange.rejected_replies for exchange in exchanges) == MOST_WARNINGS + 5
    assert len(said) == MOST_WARNINGS
    assert said[-1].endswith("Further ones are named in exchanges.jsonl only.")


@pytest.mark.parametrize(("deed", "total"), [("honest", [4, 6]), ("short", [3, 5]), ("stumble", [3, 5])])
def test_a_masked_upload_of_another_form_counts_as_dropped_out(deed: str, total: list[int]) -> None:
    privacy = SecureSum("secure_sum", neighbours=4, colluding=0, bits=None)
    votes, exchanges, _, _ = asked(deed, privacy=privacy)
    assert votes == [total]
    assert exchanges[0].rejected_replies == (deed != "honest")


def test_what_is_changed_on_the_way_is_looked_at_too() -> None:
    def lie(call: Any, answer: Answer) -> Any:
        return "nonsense" if answer.client == 2 else answer.reply

    votes, (exchange,), _, _ = asked("honest", transport=Hostile(InProcess(), lie))
    assert votes == [[1, 0], [1, 1], [1, 3]]
    assert exchange.rejected == {"2": "the reply is a str, expected Vote"}


def test_a_record_says_how_many_replies_were_dropped(tiny: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = AFCL.summarise

    def summarise(self, client, classes=None):
        if client.id == 1 and classes == 6:
            raise ValueError("not foreseen")
        return honest(self, client, classes)

    monkeypatch.setattr(AFCL, "summarise", summarise)
    run = tiny("method=afcl")
    assert run.code == 0, run.err
    assert run.result["metrics"]["rejected_replies"] == sum(line["rejected_replies"] for line in run.exchanges) > 0
    assert run.exchanges[-1]["rejected"] == {"1": "it has raised ValueError: not foreseen"}
    assert "warning: The reply of client 1 to summarise in task 3 was dropped" in run.err
    assert "replies that were dropped" in run.out
    again = tiny("method=afcl", "federation.on_bad_reply=stop", "resume=false")
    assert again.code == 1
    assert "The reply of client 1 to summarise" in again.err
    assert "Traceback" not in again.err


def test_a_mistake_in_a_method_ends_with_its_traceback(tiny: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def train(self, client, received):
        raise KeyError("a mistake of the author")

    monkeypatch.setattr(Finetune, "train", train)
    with pytest.raises(KeyError, match="a mistake of the author"):
        tiny("method=finetune", "method.rounds=1", "method.epochs=1")
