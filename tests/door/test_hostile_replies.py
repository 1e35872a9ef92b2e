"""A short sample of ``python -m benchmarks.hostile_replies``, and whether it would see what it looks for."""

from importlib import import_module
from types import ModuleType

import pytest
import torch
from conftest import ROOT

from fcl_bench.checks.hostile import lies
from fcl_bench.checks.mutations import mutations
from fcl_bench.checks.variants import sandbox
from fcl_bench.door.gate import Gate


@pytest.fixture
def hostile(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The command, which is no part of an installation."""
    monkeypatch.syspath_prepend(ROOT)
    return import_module("benchmarks.hostile_replies")


def test_changed_replies_are_refused_or_do_no_harm(hostile: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert hostile.main(["--replies", "150", "--method", "afcl", "fedncm", "scaffold"]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    numbers = map(int, last.split()[-len(hostile.OUTCOMES) :])
    found = dict(zip(hostile.OUTCOMES, numbers, strict=True))
    assert found["rejected"] > 75
    assert found["well-formed"] > 0
    assert (found["silently changed"], found["ends the run"]) == (0, 0)


@pytest.mark.parametrize("method", ["fedncm", "finetune"])
def test_without_a_door_it_finds_what_there_is_to_find(
    hostile: ModuleType, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Gate, "admits", lambda gate, answer: True)
    case = hostile.Case(sandbox((f"method={method}",), "frozen"))
    client = int(case.stream.sizes[1].argmax())
    (place, *_) = (place for place in case.transport.answers if place[0] == 1 and place[3] == client)
    every = list(lies(case.transport.answers[place].reply, case.stream, 1, client))
    outcomes = {case.outcome(place, mutation).partition(":")[0] for mutation in every}
    assert {"silently changed", "ends the run", "well-formed"} <= outcomes


def test_a_mutation_is_another_reply_in_one_place() -> None:
    reply = (1, {"w": torch.eye(2)}, None)
    found = list(mutations(reply, foreign=None, seen=0))
    assert {len(mutation.address) for mutation in found} == {0, 1, 2}
    cut = next(each for each in found if each.kind == "cut")
    assert (cut.address, cut.reply) == ((), reply[:2])
    nothing = next(each for each in found if each.kind == "no number in it")
    assert nothing.address == (1, "w")
    assert nothing.reply[1]["w"].isnan().tolist() == [[True, False], [False, False]]
    assert reply[1]["w"].tolist() == [[1, 0], [0, 1]]
