"""CIFAR-100 (Krizhevsky, 2009): 100 classes of 32 x 32 photographs."""

from pathlib import Path

from fcl_bench.data.download import Source
from fcl_bench.dataset import Dataset
from fcl_bench.datasets.cifar import Edition, load

EDITION = Edition(
    source=Source(
        url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
        md5="eb9058c3a382ffc7106e4002c42a8d85",
        accepts=("cifar-100-python/", "cifar-100-python.tar.gz", "cifar100/", "cifar100*.zip"),
    ),
    folder="cifar-100-python",
    train={"train": "16019d7e3df5f24257cddd939b257f8d"},
    test={"test": "f0ef6b0ae62326f3e7ffdfab6717acfc"},
    meta={"meta": "7973b15100ade9c7d40fb424638fde48"},
    labels="fine_labels",
    classes="fine_label_names",
    earlier={"e26f9f62ae8c02de5e992d310b1d4c8a": "9f4dac12adb05ca1b19254a33bd45e36"},
)


def cifar100(name: str, data_dir: Path, download: bool) -> Dataset:
    """The published archive, or class folders of PNG files, plain or zipped."""
    return load(name, data_dir, download, EDITION)
