"""ImageNet-R (Hendrycks et al., 2021): 200 classes in art, cartoons, toys and other renditions."""

from pathlib import Path

from fcl_bench.data.archives import unpack
from fcl_bench.data.download import Source, verify
from fcl_bench.data.images import open_files
from fcl_bench.dataset import Dataset
from fcl_bench.datasets.class_folders import as_dataset, check_complete, divide, list_classes, to_samples

SOURCE = Source(
    url="https://people.eecs.berkeley.edu/~hendrycks/imagenet-r.tar",
    md5="a61312130a589d0ca1a8fca1f2bd3337",
    accepts=("imagenet-r/", "imagenet-r.tar"),
)
SIZE = 30_000
TEST_RATIO = 0.2  # it is published without a split; 24,000 + 6,000 images are customary


def imagenet_r(name: str, data_dir: Path, download: bool) -> Dataset:
    """The published archive, unpacked once, or the folder in it."""
    path = SOURCE.find(data_dir, download)
    if path.suffix == ".tar":
        path = unpack(verify(path, SOURCE.md5), data_dir / "imagenet-r")
    files = open_files(path)
    members = list_classes(files)
    samples = to_samples(files, members)
    check_complete(files, len(samples.paths), SIZE)
    classes = list(members)
    return as_dataset(name, classes, *divide(samples, classes, TEST_RATIO), SOURCE.places(data_dir))
