"""Checkpoints: what is in them, how large they are, and where a run goes on from them."""

import math
from pathlib import Path

import pytest
import torch
from conftest import Command, Outcome, assert_equal_runs

from fcl_bench.learning import Costs, Progress
from fcl_bench.run import pace
from fcl_bench.run.checkpoint import decoded, first_checkpoint

ROUNDS = ("method.rounds=4", "method.epochs=1")


def progress(**changes: object) -> Progress:
    values = {"task": 1, "yielded": 2, "exchanges": 3, "state": {"w": torch.ones(2)}, "costs": Costs(1, 2, 3, 4.5)}
    return Progress(**(values | changes))


def test_a_checkpoint_survives_the_way_through_bytes() -> None:
    point = first_checkpoint(progress(), 5).within_task(progress(), {3: {"seen": 7}})
    back = decoded(point.encoded())
    assert (back.progress.task, back.progress.yielded, back.progress.exchanges) == (1, 2, 3)
    assert back.progress.costs == Costs(1, 2, 3, 4.5)
    assert back.memories == {3: {"seen": 7}}
    assert torch.equal(back.progress.state["w"], torch.ones(2))
    assert back.predictions.shape == (0, 5)


def test_it_names_no_class_of_the_harness() -> None:
    assert b"fcl_bench" not in first_checkpoint(progress(), 5).encoded()


@pytest.mark.parametrize("clients", [10, 100])
def test_what_clients_share_is_stored_once(clients: int) -> None:
    """By content: whether they hold one tensor, or equal ones that came over the wire, does not matter."""
    teacher = torch.randn(10_000)
    same = {client: {"teacher": teacher, "id": client} for client in range(clients)}
    equal = {client: {"teacher": teacher.clone(), "id": client} for client in range(clients)}
    for memories in (same, equal):
        point = first_checkpoint(progress(), 5).within_task(progress(), memories)
        data = point.encoded()
        assert 4 * 10_000 < len(data) < 4 * 10_000 + 200 * clients + 2000
        back = decoded(data).memories
        assert all(torch.equal(memory["teacher"], teacher) for memory in back.values())
        assert [memory["id"] for memory in back.values()] == list(range(clients))


def test_tensors_that_differ_in_type_or_shape_only_are_kept_apart() -> None:
    memories = {0: {"a": torch.zeros(4), "b": torch.zeros(2, 2), "c": torch.zeros(2, dtype=torch.float64)}}
    back = decoded(first_checkpoint(progress(), 5).within_task(progress(), memories).encoded()).memories[0]
    assert back["a"].shape == (4,)
    assert back["b"].shape == (2, 2)
    assert back["c"].dtype == torch.float64


@pytest.mark.parametrize("method", ["finetune", "fedlwf", "fedewc", "fedicarl", "scaffold", "fedavg_er", "derpp"])
def test_a_run_goes_on_from_the_last_finished_round(
    tiny: Command, output_dir: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """Stopped in the third round of the second task: no round before is repeated, and nothing else differs."""
    monkeypatch.setattr(pace, "SHARE", math.inf)
    words = (f"method={method}", *ROUNDS)
    whole = tiny(*words, f"output_dir={output_dir}-whole")
    stopped, rounds = stop_in_round(7, tiny, monkeypatch, *words)
    assert stopped.code == 130
    assert rounds == 7
    rest, more = stop_in_round(1000, tiny, monkeypatch, *words)
    assert more == 3 * 4 - 6  # the round under way is repeated, those before are not
    assert "resumed   after task 1 of 3, round 2 of the next" in rest.out
    assert_equal_runs(whole, rest)


def stop_in_round(number: int, tiny: Command, monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[Outcome, int]:
    """Interrupt a run in its round of this number, counted from 1; also how many rounds were begun."""
    from fcl_bench.transport.site import LocalSite

    answer = LocalSite.answer
    begun: set[tuple[int, int]] = set()

    def interrupted(self: LocalSite, call: object, client: int) -> object:
        if call.function == "train":
            begun.add((call.task, call.exchange))
            if len(begun) == number:
                raise KeyboardInterrupt
        return answer(self, call, client)

    with monkeypatch.context() as patch:
        patch.setattr(LocalSite, "answer", interrupted)
        return tiny(*words), len(begun)
