"""The arrays that make a stream: how large they can be for some data, and whether they deal each sample once."""

import numpy as np

MOST_SHARES = 10  # shares per training sample (and 1,000) that a manifest may have: nearly all of more would be empty


def limits(train_labels: np.ndarray, test_labels: np.ndarray) -> dict[str, int]:
    """How many numbers each array of a stream of such data can have."""
    train = len(train_labels)
    labels = number_of_labels(train_labels, test_labels)
    shares = MOST_SHARES * train + 1000
    sizes = {"samples": train, "sizes": shares, "test": len(test_labels), "test_sizes": shares}
    return sizes | {"order": labels, "histogram": 2 * labels, "label_digest": 4, "reserved": train}


def number_of_labels(train_labels: np.ndarray, test_labels: np.ndarray) -> int:
    """One more than the largest label of either half."""
    return int(max(train_labels.max(initial=-1), test_labels.max(initial=-1))) + 1


def check_whole(arrays: dict[str, np.ndarray], train: int, test: int) -> None:
    """Raise a ValueError unless each sample is in one place at most, and the sizes say how many there are."""
    for name in ("samples", "reserved", "test", "test_sizes", "order"):
        if name in arrays and arrays[name].ndim != 1:
            raise ValueError(f"{name} is not one row of numbers")
    if arrays["sizes"].ndim != 2 or 0 in arrays["sizes"].shape:
        raise ValueError("sizes is not a table of tasks and clients")
    if len(arrays["sizes"]) != len(arrays["test_sizes"]):
        raise ValueError("training and test samples have different numbers of tasks")
    reserved = arrays.get("reserved", np.zeros(0, dtype=np.int64))
    _check_places(np.concatenate([arrays["samples"], reserved]), train, "training")
    _check_places(arrays["test"], test, "test")
    for samples, sizes in (("samples", "sizes"), ("test", "test_sizes")):
        if arrays[sizes].min(initial=0) < 0 or arrays[sizes].sum() != len(arrays[samples]):
            raise ValueError(f"its {sizes} do not add up to its {len(arrays[samples]):,} {samples}")
        if arrays[sizes].max(initial=0) > len(arrays[samples]):  # a sum may overflow
            raise ValueError(f"one of its {sizes} is larger than all together")


def _check_places(samples: np.ndarray, count: int, what: str) -> None:
    if len(samples) and not 0 <= samples.min() <= samples.max() < count:
        raise ValueError(f"it names {what} samples other than 0 to {count - 1:,}")
    if len(np.unique(samples)) < len(samples):
        raise ValueError(f"it gives a {what} sample to two places")
