import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from scipy.stats import entropy, kstest

from fcl_bench.partition import Dirichlet, IidClients, Shards

TASK = np.repeat(np.arange(20), 500)  # the task of the reference statistics
SEEDS = range(12)
bounded = settings(max_examples=40, deadline=None, derandomize=True)


def counts(shares: tuple[np.ndarray, ...], labels: np.ndarray) -> np.ndarray:
    """Samples by client and class."""
    return np.array([np.bincount(labels[own], minlength=labels.max() + 1) for own in shares])


def effective_classes(partition: Dirichlet) -> float:
    held = [counts(partition.split(TASK, seed, task=0), TASK) for seed in SEEDS]
    return float(np.mean([np.exp(entropy(of_seed, axis=1)) for of_seed in held]))


@bounded
@given(
    labels=st.lists(st.integers(0, 9), max_size=80).map(lambda values: np.array(values, dtype=np.int64)),
    clients=st.integers(1, 30),
    seed=st.integers(0, 1000),
    task=st.integers(0, 20),
    data=st.data(),
)
def test_every_position_goes_to_exactly_one_client(labels, clients, seed, task, data) -> None:
    dirichlet = st.builds(
        Dirichlet,
        st.just(clients),
        st.sampled_from([1e-6, 0.01, 0.1, 1, 1000]),
        st.sampled_from(["equal", "capped"]),
        st.sampled_from(["fresh", "fixed"]),
    )
    partition = data.draw(
        dirichlet | st.just(IidClients(clients)) | st.builds(Shards, st.just(clients), st.integers(1, 4))
    )
    shares = partition.split(labels, seed, task)
    assert len(shares) == clients
    assert sorted(np.concatenate(shares)) == list(range(len(labels)))
    assert all((np.diff(own) > 0).all() for own in shares)
    sizes = [len(own) for own in shares]
    if getattr(partition, "balance", "equal") == "equal":
        assert max(sizes) - min(sizes) <= getattr(partition, "shards_per_client", 1)
    again = partition.split(labels, seed, task)
    assert all(np.array_equal(one, two) for one, two in zip(shares, again, strict=True))


@pytest.mark.parametrize(("alpha", "expected"), [(0.1, 6.5), (0.2, 7.2), (0.5, 9.7), (1.0, 13.1)])
def test_equal_matches_the_reference_statistics(alpha: float, expected: float) -> None:
    assert effective_classes(Dirichlet(5, alpha)) == pytest.approx(expected, rel=0.15)
    assert {len(own) for own in Dirichlet(5, alpha).split(TASK, 0, 0)} == {2000}


@pytest.mark.parametrize(("alpha", "expected"), [(0.1, 5.9), (0.2, 7.5), (0.5, 9.9), (1.0, 13.5)])
def test_capped_matches_the_reference_statistics(alpha: float, expected: float) -> None:
    assert effective_classes(Dirichlet(5, alpha, "capped")) == pytest.approx(expected, rel=0.2)


def test_capped_gives_a_full_client_no_further_class() -> None:
    for seed in SEEDS:
        before = counts(Dirichlet(5, 0.1, "capped").split(TASK, seed, 0), TASK).cumsum(axis=1)
        full = before[:, :-1] >= len(TASK) / 5
        assert full.any()
        assert not np.diff(before, axis=1)[full].any()


def test_capped_draws_again_while_a_client_is_empty() -> None:
    labels = np.repeat(
        np.arange(3), 100
    )  # with fixed priors there is but one draw; it leaves a client empty in a third

    def smallest(priors: str) -> list[int]:
        shares = [Dirichlet(5, 0.1, "capped", priors).split(labels, seed, 0) for seed in range(50)]
        return [min(map(len, own)) for own in shares]

    assert min(smallest("fresh")) > 0
    assert min(smallest("fixed")) == 0


@pytest.mark.parametrize("partition", [Dirichlet(2, 1), Dirichlet(2, 1, "capped"), IidClients(2), Shards(2)])
def test_within_a_class_chance_decides(partition) -> None:
    owner = np.zeros(1000, dtype=int)
    owner[partition.split(np.zeros(1000, dtype=int), 0, 0)[1]] = 1
    expected = 2 * 999 * owner.mean() * (1 - owner.mean())  # changes of owner along the task, dealt at random
    assert np.count_nonzero(np.diff(owner)) == pytest.approx(expected, rel=0.2)


@pytest.mark.parametrize("balance", ["equal", "capped"])
def test_skew_grows_steadily_as_alpha_falls(balance: str) -> None:
    effective = [effective_classes(Dirichlet(5, alpha, balance)) for alpha in (1e-12, 0.01, 0.1, 1, 10, 1000)]
    assert effective == sorted(effective)
    assert effective[0] == pytest.approx(4, abs=0.1)  # 2,000 samples, 500 of each class: four classes at the least
    assert effective[-1] > 19.5


def test_preferences_are_dirichlet() -> None:
    """The share of one of three classes is Beta(alpha, 2 alpha); many clients find what they prefer."""
    labels = np.repeat(np.arange(3), 20_000)
    for priors in ("fresh", "fixed"):
        partition = Dirichlet(1, 0.3, priors=priors)
        drawn = [
            np.exp(partition._preferences(np.arange(3), seed, np.random.default_rng(seed)))[0] for seed in range(400)
        ]
        shares = np.array(drawn) / np.sum(drawn, axis=1, keepdims=True)
        assert kstest(shares[:, 1], "beta", (0.3, 0.6)).pvalue > 0.001
    first = counts(Dirichlet(40, 0.3).split(labels, 0, 0), labels)[:, 0] / 1500
    assert first.mean() == pytest.approx(1 / 3, abs=0.01)
    assert (first > 0.99).any()
    assert (first < 0.01).any()


def test_fixed_priors_keep_a_clients_taste_from_task_to_task() -> None:
    def agreement(priors: str, seed: int) -> float:
        tasks = [counts(Dirichlet(5, 0.1, priors=priors).split(TASK, seed, task), TASK).ravel() for task in (0, 1)]
        return float(np.corrcoef(tasks)[0, 1])

    assert np.mean([agreement("fixed", seed) for seed in SEEDS]) > 0.4
    assert abs(np.mean([agreement("fresh", seed) for seed in SEEDS])) < 0.1


def test_fixed_priors_do_not_depend_on_which_other_classes_are_present() -> None:
    labels, fewer = np.repeat(np.arange(4), 50), np.repeat([1, 3], 50)
    partition = Dirichlet(4, 0.5, "capped", "fixed")
    assert (
        counts(partition.split(labels, 7, 0), labels)[:, 0].tolist()
        == counts(partition.split(labels[labels < 1], 7, 2), labels[labels < 1])[:, 0].tolist()
    )
    preferences = [partition._preferences(np.unique(of), 7, np.random.default_rng()) for of in (labels, fewer)]
    assert np.array_equal(preferences[0][:, [1, 3]], preferences[1])


@pytest.mark.parametrize("balance", ["equal", "capped"])
@pytest.mark.parametrize("alpha", [1e-300, 0.01, 1000, 1e300])
def test_extreme_alphas_and_a_thousand_clients(alpha: float, balance: str) -> None:
    for labels in (TASK, TASK[::50]):  # 10,000 samples, then fewer samples than clients
        shares = Dirichlet(1000, alpha, balance).split(labels, 0, 0)
        assert sorted(np.concatenate(shares)) == list(range(len(labels)))


def test_iid_clients_hold_every_class_alike() -> None:
    held = counts(IidClients(5).split(TASK, 0, 0), TASK)
    assert abs(held - 100).max() < 36  # four standard deviations


@pytest.mark.parametrize("shards_per_client", [1, 2])
def test_shards_give_each_client_few_classes(shards_per_client: int) -> None:
    shares = Shards(10, shards_per_client).split(TASK, 0, 0)
    assert {len(own) for own in shares} == {1000}
    classes = [np.unique(TASK[own]) for own in shares]
    assert all(len(own) == 2 for own in classes)  # 20 classes of 500: a shard of 1,000 is two, of 500 one
    if shards_per_client == 1:
        assert all(own[1] == own[0] + 1 for own in classes)
    else:
        assert any(own[1] != own[0] + 1 for own in classes)


@pytest.mark.parametrize("partition", [Dirichlet(5, 0.5), Dirichlet(5, 0.5, "capped"), IidClients(5), Shards(5)])
def test_seed_and_task_change_the_split(partition) -> None:
    splits = [np.concatenate(partition.split(TASK, seed, task)).tobytes() for seed in (0, 1) for task in (0, 1)]
    assert len(set(splits)) == 4


@pytest.mark.parametrize(
    "wrong", [{"clients": 0}, {"alpha": 0}, {"alpha": float("inf")}, {"balance": "x"}, {"priors": "x"}]
)
def test_annotations_refuse_wrong_values(wrong: dict) -> None:
    check = TypeAdapter(Dirichlet).validate_python
    assert check({"clients": 2, "alpha": 1, "name": "mine"}).clients == 2
    with pytest.raises(ValidationError):
        check({"clients": 2, "alpha": 1, **wrong})
