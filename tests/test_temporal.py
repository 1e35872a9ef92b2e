import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from fcl_bench.errors import ConfigError
from fcl_bench.temporal import Disjoint, IidTasks, SiBlurry, TemporalSplit

LAYOUTS = ("fixed", "varying", "legacy", "legacy_fixed")
bounded = settings(max_examples=40, deadline=None, derandomize=True)


def labels_of(classes: int, each: int) -> np.ndarray:
    """Labels in an order unlike that of the classes, as in CIFAR-100."""
    return np.random.default_rng(0).permutation(np.repeat(np.arange(classes), each))


def homes(groups: tuple[np.ndarray, ...]) -> dict[int, int]:
    return {int(label): task for task, own in enumerate(groups) for label in own}


def published(
    labels: list[int], classes: int, tasks: int, n: int, m: int, seed: int, fixed: bool = False
) -> tuple[list[int], list[list[int]]]:
    """The published sampler, written out sample by sample: the moved quotas and the stream of each task.

    Its ``fixed`` branch draws no cuts. What is left over when the pool is dealt in equal parts is dropped.
    """
    rng = torch.Generator().manual_seed(seed)
    disjoint = classes * n // 100 // tasks * tasks
    blurry = (classes - disjoint) // tasks * tasks
    order = torch.randperm(classes, generator=rng).tolist()

    def cuts(count: int) -> list[int]:
        if fixed:
            return [task * (count // tasks) for task in range(tasks + 1)]
        inner = torch.randint(0, count, (tasks - 1,), generator=rng).tolist() if count else [0] * (tasks - 1)
        return [0, *sorted(inner), count]

    disjoint_cuts, blurry_cuts = cuts(disjoint), cuts(blurry)
    stays, blurs = [[] for _ in range(tasks)], [[] for _ in range(tasks)]
    for index, label in enumerate(labels):
        place = order.index(label)
        for task in range(tasks):
            if disjoint_cuts[task] <= place < disjoint_cuts[task + 1]:
                stays[task].append(index)
            if blurry_cuts[task] <= place - disjoint < blurry_cuts[task + 1]:
                blurs[task].append(index)
    if fixed:
        quotas = [len(own) * m // 100 for own in blurs]
        moved = cuts(sum(quotas))
    else:
        moved = cuts(sum(len(own) for own in blurs) * m // 100)
        quotas = [moved[task + 1] - moved[task] for task in range(tasks)]
    pool = [index for own, quota in zip(blurs, quotas, strict=True) for index in own[:quota]]
    pool = [pool[i] for i in torch.randperm(len(pool), generator=rng).tolist()]
    streams = []
    for task in range(tasks):
        own = stays[task] + blurs[task][quotas[task] :] + pool[moved[task] : moved[task + 1]]
        streams.append([own[i] for i in torch.randperm(len(own), generator=rng).tolist()])
    return quotas, streams


CHECK_VALUES = {  # (classes, tasks, seed): order, disjoint and blurry classes per task, moved quotas
    (100, 5, 1): ("45 15 90 32 35 63", "3 0 20 14 13", "10 6 0 30 4", "50 333 264 1528 325"),
    (100, 5, 2): ("48 97 1 81 90 49", "0 16 9 5 20", "9 3 18 16 4", "545 136 92 1573 154"),
    (100, 10, 1): (
        "45 15 90 32 35 63",
        "0 3 0 7 6 0 7 14 9 4",
        "5 5 9 3 3 8 12 2 2 1",
        "532 185 252 211 10 141 447 141 410 171",
    ),
    (100, 10, 2): (
        "48 97 1 81 90 49",
        "0 9 3 4 9 5 0 1 15 4",
        "1 8 7 7 9 8 5 1 3 1",
        "89 5 113 503 234 219 792 337 50 158",
    ),
    (200, 10, 1): (
        "45 130 128 38 91 123",
        "14 11 3 9 8 1 20 6 14 14",
        "11 1 4 9 12 35 1 12 13 2",
        "69 572 1216 165 559 147 833 470 820 149",
    ),
}


@pytest.mark.parametrize(("classes", "tasks", "seed"), CHECK_VALUES)
def test_legacy_gives_the_published_check_values(classes: int, tasks: int, seed: int) -> None:
    order, disjoint, blurry, quotas = ([int(x) for x in row.split()] for row in CHECK_VALUES[classes, tasks, seed])
    labels = labels_of(classes, 500)
    split = SiBlurry(tasks, layout="legacy").split(labels, labels[::5], seed)
    assert np.concatenate(split.disjoint)[:6].tolist() == order
    assert [len(own) for own in split.disjoint] == disjoint
    assert [len(own) for own in split.blurry] == blurry
    expected_quotas, expected = published(labels.tolist(), classes, tasks, 50, 10, seed)
    assert expected_quotas == quotas
    assert [own.tolist() for own in split.train] == expected


def test_legacy_gives_the_published_sizes() -> None:
    labels = labels_of(100, 500)
    for tasks, sizes in {
        5: [6500, 3000, 10264, 22000, 8236],
        10: [2500, 4000, 4500, 5000, 4500, 4000, 9500, 8000, 5500, 2500],
    }.items():
        split = SiBlurry(tasks, layout="legacy").split(labels, labels, seed=1)
        assert [len(own) for own in split.train] == sizes


def test_legacy_fixed_gives_the_published_sizes() -> None:
    """20 classes of 50 samples in 4 tasks: 8 disjoint and 12 blurry classes, of which each task gives 15 samples."""
    labels = labels_of(20, 50)
    split = SiBlurry(4, 0.5, 0.1, "legacy_fixed").split(labels, labels, seed=12)
    assert [len(own) for own in split.train] == [250] * 4
    assert [len(own) for own in split.disjoint] == [2] * 4
    assert [len(own) for own in split.blurry] == [3] * 4
    for task, own in enumerate(split.train):
        assert np.isin(labels[own], split.blurry[task]).sum() >= 3 * 50 - 15
        assert sorted(own[np.isin(labels[own], split.disjoint[task])]) == sorted(
            np.flatnonzero(np.isin(labels, split.disjoint[task]))
        )


def test_legacy_fixed_drops_moved_samples_that_are_left_over() -> None:
    """Two tasks of one class each give 1 and 2 samples: one of the three is dealt to each task."""
    labels = np.array([0] * 10 + [1] * 20)
    split = SiBlurry(2, 0, 0.1, "legacy_fixed").split(labels, labels, seed=0)
    assert sorted(len(own) for own in split.train) == [10, 19]
    assert sum(len(own) for own in split.test) == 30  # no test sample is lost


@bounded
@given(
    classes=st.integers(1, 14),
    tasks=st.integers(1, 14),
    n=st.integers(0, 100),
    m=st.integers(0, 100),
    seed=st.integers(0, 2**63 - 1),
    layout=st.sampled_from(["legacy", "legacy_fixed"]),
    data=st.data(),
)
def test_legacy_equals_the_published_sampler(classes, tasks, n, m, seed, layout, data) -> None:
    tasks = min(tasks, classes)
    labels = [*data.draw(st.lists(st.integers(0, classes - 1), max_size=60)), classes - 1]
    split = SiBlurry(tasks, n / 100, m / 100, layout).split(np.array(labels), np.arange(classes), seed)
    expected = published(labels, classes, tasks, n, m, seed, fixed=layout == "legacy_fixed")[1]
    assert [own.tolist() for own in split.train] == expected
    kept = sorted(homes(split.disjoint) | homes(split.blurry))
    assert sorted(np.concatenate(split.test)) == kept  # here the test set is one sample per class, in class order


@bounded
@given(
    classes=st.integers(1, 20),
    tasks=st.integers(1, 20),
    disjoint=st.floats(0, 1),
    blurry=st.floats(0, 1),
    layout=st.sampled_from(["fixed", "varying"]),
    seed=st.integers(0, 1000),
)
def test_si_blurry_loses_nothing_and_keeps_disjoint_classes_together(
    classes, tasks, disjoint, blurry, layout, seed
) -> None:
    tasks = min(tasks, classes)
    train, test = labels_of(classes, 9), labels_of(classes, 4)
    split = SiBlurry(tasks, disjoint, blurry, layout).split(train, test, seed)
    for labels, dealt in ((train, split.train), (test, split.test)):
        assert sorted(np.concatenate(dealt)) == list(range(len(labels)))
        for label, home in homes(split.disjoint).items():
            assert [task for task, own in enumerate(dealt) if label in labels[own]] == [home]
    assert sorted(homes(split.disjoint) | homes(split.blurry)) == list(range(classes))
    assert len(homes(split.disjoint)) == int(classes * disjoint + 1e-6)
    if layout == "fixed":
        for groups in (split.disjoint, split.blurry, [*map(np.append, split.disjoint, split.blurry)]):
            sizes = [len(own) for own in groups]
            assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("layout", LAYOUTS)
def test_blurry_classes_stay_mostly_at_home_in_both_halves(layout: str) -> None:
    train, test = labels_of(100, 500), labels_of(100, 100)
    split = SiBlurry(10, layout=layout).split(train, test, seed=3)
    blurry = homes(split.blurry)
    assert len(blurry) == 50
    for labels, dealt in ((train, split.train), (test, split.test)):
        task_of = np.empty(len(labels), dtype=int)
        for task, own in enumerate(dealt):
            task_of[own] = task
        home_of = np.array([blurry.get(label, -1) for label in range(100)])[labels]
        away = (task_of != home_of) & (home_of >= 0)
        assert 0.05 < away.sum() / (home_of >= 0).sum() <= 0.1  # of the tenth that moves some comes home again
        if layout == "fixed":
            assert min(np.mean(~away[labels == label]) for label in blurry) > 0.75


def test_fixed_moves_the_same_share_of_every_task_and_deals_it_out_evenly() -> None:
    train = labels_of(100, 500)
    split = SiBlurry(10).split(train, train, seed=3)
    assert [len(own) for own in split.train] == [5000] * 10
    away = [
        (~np.isin(train[own], [*split.disjoint[task], *split.blurry[task]])).sum()
        for task, own in enumerate(split.train)
    ]
    assert np.mean(away) == pytest.approx(250 * 0.9, abs=10)  # 250 received, a tenth of them its own
    assert np.std(away) < 15
    classes = [len(np.unique(train[own])) for own in split.train]
    assert min(classes) >= 50  # 5 disjoint, 5 at home, nearly all of the other 45 in small numbers


@pytest.mark.parametrize("layout", ["fixed", "varying"])
def test_class_sorted_data_blur_every_blurry_class(layout: str) -> None:
    """Unshuffled, as published, whole classes would be scattered and most would not be blurred at all."""
    train = np.repeat(np.arange(200), 500)
    blurred = {}
    for name in (layout, "legacy"):
        split = SiBlurry(10, layout=name).split(train, train, seed=1)
        spread = {label: sum(label in train[own] for own in split.train) for label in homes(split.blurry)}
        blurred[name] = sum(tasks > 1 for tasks in spread.values())
    assert blurred["legacy"] == 14
    assert blurred[layout] >= (100 if layout == "fixed" else 50)


def test_class_sorted_test_sets_are_blurred_too() -> None:
    test = np.repeat(np.arange(100), 100)
    split = SiBlurry(10, layout="legacy").split(test, test, seed=1)
    spread = [sum(label in test[own] for own in split.test) for label in homes(split.blurry)]
    assert min(spread) > 1


def test_percentages_are_exact() -> None:
    """0.29 * 100 is 28.999... in floating point."""
    labels = np.arange(100)
    for percent in range(101):
        assert len(homes(SiBlurry(5, percent / 100).split(labels, labels, seed=0).disjoint)) == percent


def test_disjoint_deals_equally_many_classes_to_every_task() -> None:
    labels = labels_of(11, 7)
    split = Disjoint(4).split(labels, labels, seed=0)
    assert sorted(len(np.unique(labels[own])) for own in split.train) == [2, 3, 3, 3]
    assert sum(len(np.unique(labels[own])) for own in split.test) == 11
    assert Disjoint(4).split(labels, labels, seed=1).disjoint[0].tolist() != split.disjoint[0].tolist()


def test_iid_deals_equal_parts_of_every_class() -> None:
    labels = labels_of(10, 1000)
    split = IidTasks(4).split(labels, labels[:4001], seed=0)
    assert [len(own) for own in split.train] == [2500] * 4
    assert sorted(len(own) for own in split.test) == [1000, 1000, 1000, 1001]
    assert sorted(np.concatenate(split.train)) == list(range(10000))
    counts = np.array([np.bincount(labels[own]) for own in split.train])
    assert abs(counts - 250).max() < 60  # four standard deviations


@pytest.mark.parametrize("temporal", [*(SiBlurry(3, layout=layout) for layout in LAYOUTS), Disjoint(3), IidTasks(3)])
def test_a_split_is_a_function_of_labels_and_seed(temporal) -> None:
    labels = labels_of(6, 20)

    def flat(split: TemporalSplit) -> list[list[int]]:
        return [own.tolist() for own in (*split.train, *split.test)]

    torch.manual_seed(0)
    first = flat(temporal.split(labels, labels, seed=1))
    torch.manual_seed(1)
    assert flat(temporal.split(labels, labels, seed=1)) == first
    assert flat(temporal.split(labels, labels, seed=2)) != first


@pytest.mark.parametrize("layout", LAYOUTS)
def test_classes_without_training_samples_keep_their_place(layout: str) -> None:
    train, test = np.array([2, 2, 0]), np.arange(8)
    split = SiBlurry(4, layout=layout).split(train, test, seed=0)
    assert sorted(np.concatenate(split.train)) == [0, 1, 2]
    assert sorted(np.concatenate(split.test)) == list(range(8))


@pytest.mark.parametrize("temporal", [*(SiBlurry(11, layout=layout) for layout in LAYOUTS), Disjoint(11)])
def test_more_tasks_than_classes_are_refused(temporal) -> None:
    labels = np.arange(10)
    with pytest.raises(
        ConfigError, match=r"Expected stream\.tasks to be at most 10, the number of classes of the data, but got 11"
    ):
        temporal.split(labels, labels, seed=0)


def test_more_iid_tasks_than_samples_are_refused() -> None:
    with pytest.raises(ConfigError, match="at most 3, the number of training samples of the data, but got 4"):
        IidTasks(4).split(np.zeros(3, dtype=int), np.zeros(9, dtype=int), seed=0)


@pytest.mark.parametrize(
    "wrong",
    [{"tasks": 0}, {"disjoint_ratio": 1.1}, {"blurry_ratio": -0.1}, {"blurry_ratio": float("nan")}, {"layout": "x"}],
)
def test_annotations_refuse_wrong_values(wrong: dict) -> None:
    check = TypeAdapter(SiBlurry).validate_python
    assert check({"tasks": 2, "manifest": "runs/x", "name": "mine"}).tasks == 2
    with pytest.raises(ValidationError):
        check({"tasks": 2, **wrong})
