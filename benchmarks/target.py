"""What TARGET's server needs to make up the samples of a task, where clients hold features."""

from collections.abc import Iterator
from tempfile import TemporaryDirectory

import torch

from benchmarks.harness import learn_one_task, make_scenario
from benchmarks.measure import Row, best
from fcl_bench.learning import beginning
from fcl_bench.transport.in_process import InProcess

CLASSES, REPEATS = 90, 1  # as many as are known before the last of ten tasks of CIFAR-100
ONE_TASK = (
    *("method=target", "method.rounds=1", "method.epochs=1", "stream=iid", "stream.tasks=1", "partition.clients=5"),
    *("dataset=gaussian", f"dataset.classes={CLASSES}", "dataset.train_size=9000", "dataset.features=1280"),
    "dataset.test_size=100",
)


def target() -> Iterator[Row]:
    with TemporaryDirectory() as folder:
        scenario = make_scenario(*ONE_TASK, f"cache_dir={folder}")
        method = scenario.method()
        state = learn_one_task(method, scenario.federation(InProcess()), beginning(method)).state
        made = []
        (seconds,) = best(REPEATS, lambda: made.append(len(method.synthesise(state))))
    how = f"{made[-1]:,} samples of {CLASSES} classes x 1280 features, with student, {torch.get_num_threads()} threads"
    yield Row("TARGET, synthetic features of a task", how, seconds, "s", limit=20)
