"""A short sample of ``python -m benchmarks.hostile_replies``, and whether it would see what it looks for."""

import pytest
import torch

from benchmarks.hostile_replies import OUTCOMES, Case, main
from fcl_bench.checks.hostile import lies
from fcl_bench.checks.mutations import mutations
from fcl_bench.checks.variants import sandbox
from fcl_bench.door.gate import Gate


def counts(line: str) -> dict[str, int]:
    """The numbers at the end of a line."""
    return dict(zip(OUTCOMES, map(int, line.split()[-len(OUTCOMES) :]), strict=True))


def test_changed_replies_are_refused_or_do_no_harm(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--replies", "150", "--method", "afcl", "fedncm", "scaffold"]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    found = counts(last)
    assert found["rejected"] > 75
    assert found["well-formed"] > 0
    assert (found["silently changed"], found["ends the run"]) == (0, 0)


@pytest.mark.parametrize("method", ["fedncm", "finetune"])
def test_without_a_door_it_finds_what_there_is_to_find(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gate, "admits", lambda gate, answer: True)
    case = Case(sandbox((f"method={method}",), "frozen"))
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
