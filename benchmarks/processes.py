"""Clients in other processes: what is gained where they train, what a call costs, and the memory of a worker."""

from collections.abc import Iterator
from contextlib import closing
from tempfile import TemporaryDirectory

from benchmarks.harness import make_scenario
from benchmarks.measure import Row
from benchmarks.memory import anonymous_mb
from benchmarks.overhead import Idle
from fcl_bench.config.compose import Maker
from fcl_bench.learning import beginning, learn
from fcl_bench.method import Method
from fcl_bench.run.scenario import MethodSource, Scenario
from fcl_bench.transport import Transport
from fcl_bench.transport.in_process import InProcess
from fcl_bench.transport.processes import Processes

WORKERS = 2
ROUNDS = 9  # the first of which is not measured
TRAINING = ("method=finetune", f"method.rounds={ROUNDS}", "method.epochs=5", "method.batch_size=128")
ONE_TASK = ("stream=iid", "stream.tasks=1", "partition=iid")
FEATURES = ("dataset=gaussian", "dataset.features=1280", "dataset.test_size=100")


def processes() -> Iterator[Row]:
    with TemporaryDirectory() as folder:
        yield training(folder)
        yield idle_call(folder)
        yield worker_memory(folder)


def training(folder: str) -> Row:
    """Round by round in turn, so that a busy machine is busy for both."""
    sizes = ("dataset.train_size=16000", "partition.clients=8", f"cache_dir={folder}")
    scenario = make_scenario(*TRAINING, *ONE_TASK, *FEATURES, *sizes)
    with closing(Processes(WORKERS)) as there:
        away = rounds(scenario, there)
        here = rounds(scenario, InProcess())
        seconds = [(next(away), next(here)) for _ in range(ROUNDS)][1:]
    how = (
        f"a round of Finetune, 8 clients x 2,000 x 1280 features x 5 epochs, {WORKERS} workers; best of {len(seconds)}"
    )
    best_away = min(away for away, _ in seconds)
    best_here = min(here for _, here in seconds)
    return Row("processes / in process, frozen Finetune", how, best_away, "s", best_here, limit=0.65)


def rounds(scenario: Scenario, transport: Transport) -> Iterator[float]:
    """The seconds of each round, as a clock on the wall shows them."""
    method = scenario.method()
    federation = scenario.federation(transport)
    before = 0.0
    for progress in learn(method, federation, beginning(method)):
        if not progress.between_tasks:
            yield progress.costs.wall_seconds - before
            before = progress.costs.wall_seconds


class IdleSource(MethodSource):
    """A method that asks every client for a number."""

    def __call__(self) -> Method:
        return Idle(self.backbone)


def idle_call(folder: str) -> Row:
    """Messages of eight bytes both ways."""
    sizes = ("dataset.train_size=2000", "partition.clients=1000", f"cache_dir={folder}")
    scenario = make_scenario("method=afcl", *ONE_TASK, *FEATURES, *sizes)
    source = IdleSource(Maker({}), scenario.backbone, seed=1)
    scenario.__dict__["method"] = source
    with closing(Processes(WORKERS)) as there:
        seconds = list(rounds(scenario, there))[1:]
    how = f"1,000 clients answer with a number, {WORKERS} workers; best of {len(seconds)}"
    return Row("a call that does nothing, processes", how, 1000 * min(seconds) / 1000, "ms", limit=1.0)


def worker_memory(folder: str) -> Row:
    """What a worker takes to train on half a gigabyte of features, beyond what it takes on very few."""
    used = []
    for samples in (800, 100_000):
        sizes = (f"dataset.train_size={samples}", "partition.clients=8", "method.rounds=1", f"cache_dir={folder}")
        scenario = make_scenario(*TRAINING, *ONE_TASK, *FEATURES, *sizes)
        with closing(Processes(WORKERS)) as there:
            list(rounds(scenario, there))
            used.append(max(map(anonymous_mb, there.process_ids)))
    how = "RssAnon after a round of Finetune on 100,000 x 1280 features, less that after one on 800"
    return Row("memory of a worker beyond imports", how, used[1] - used[0], "MB", limit=50)
