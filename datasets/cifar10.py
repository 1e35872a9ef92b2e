"""CIFAR-10 (Krizhevsky, 2009): 10 classes of 32 x 32 photographs."""

from pathlib import Path

from fcl_bench.data.download import Source
from fcl_bench.dataset import Dataset
from fcl_bench.datasets.cifar import Edition, load

EDITION = Edition(
    source=Source(
        url="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
        md5="c58f30108f718f92721af3b95e74349a",
        accepts=("cifar-10-batches-py/", "cifar-10-python.tar.gz", "cifar10/", "cifar10.zip", "cifar10[!0]*.zip"),
    ),
    folder="cifar-10-batches-py",
    train={
        "data_batch_1": "c99cafc152244af753f735de768cd75f",
        "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "data_batch_4": "634d18415352ddfa80567beed471001a",
        "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    },
    test={"test_batch": "40351d587109b95175f43aff81a1287e"},
    meta={"batches.meta": "5ff9c542aee3614f3951f8cda6e48888"},
    labels="labels",
    classes="label_names",
)


def cifar10(name: str, data_dir: Path, download: bool) -> Dataset:
    """The published archive, or class folders of PNG files, plain or zipped."""
    return load(name, data_dir, download, EDITION)
