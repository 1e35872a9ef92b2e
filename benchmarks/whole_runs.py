"""Whole runs as large as CIFAR-100's, with the budget of two cores: ten tasks, five clients, two workers."""

from collections.abc import Iterator
from tempfile import TemporaryDirectory

from benchmarks.harness import learn_all, make_scenario
from benchmarks.measure import Row

MINUTES_8 = 8 * 60
LIMITS = {  # seconds, by what is run
    "finetune local=quick": 20,
    "target": MINUTES_8,
    "fedcbc": MINUTES_8,
    "fedmgp": MINUTES_8,
}
RUN = (
    *("dataset=gaussian", "dataset.classes=100", "dataset.train_size=50000", "dataset.features=1280"),
    *("dataset.test_size=1000", "stream.tasks=10", "partition.alpha=0.1", "transport=processes", "transport.workers=2"),
)


def whole_runs() -> Iterator[Row]:
    with TemporaryDirectory() as folder:
        for words, limit in LIMITS.items():
            scenario = make_scenario(*f"method={words}".split(), *RUN, f"cache_dir={folder}")
            _, costs = learn_all(scenario)
            how = "50,000 x 1280 features, 100 classes in 10 tasks, 5 clients, 2 workers; once, without evaluation"
            yield Row(f"{words}, a whole run", how, costs.wall_seconds, "s", limit=limit)
