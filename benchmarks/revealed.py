"""``python -m benchmarks.revealed OVERRIDES``: what the server can read off AFCL's uploads, stream by stream.

The overrides name data set, backbone, ``data_dir`` and ``cache_dir``. Each line is one stream: how many uploads there
are, how many of them have fewer samples than features, how many cells (a class at a client in a task) there are, how
many of them hold one sample, and what a run records: samples revealed, and uploads that reveal one or more.

With ``--out FILE`` it draws instead what one upload shows: a training image whose features were read off it, beside the
test images with the nearest features. The server has the upload, the backbone and the test images, nothing else; the
training image is looked up afterwards.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import cosine_similarity

from benchmarks.harness import learn_all, make_scenario
from fcl_bench.leaderboard.picture_file import check_picture, save
from fcl_bench.run.scenario import Scenario
from fcl_bench.transport.in_process import InProcess

TASKS = (5, 10)
ALPHAS = (0.1, 0.2)
SEEDS = (1, 2, 3)
NEIGHBOURS = 5
ALMOST = 1e-3  # by so much a number of samples that is solved for may be off
TITLES = "tasks  alpha  seed  uploads  fewer samples than features  cells  of one sample  revealed  revealing uploads"


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.revealed", description=__doc__)
    parser.add_argument("--out", type=Path, metavar="FILE", help="draw what one upload shows")
    parser.add_argument("overrides", nargs="*")
    options = parser.parse_args()
    if options.out:
        check_picture(options.out)
        save(picture(make_scenario("method=afcl", *options.overrides)), options.out)
        return
    print(TITLES)
    for tasks, alpha, seed in product(TASKS, ALPHAS, SEEDS):
        where = (f"stream.tasks={tasks}", f"partition.alpha={alpha}", f"seed={seed}")
        line = counted(make_scenario("method=afcl", *where, *options.overrides))
        print(f"{tasks:>5}{alpha:>7}{seed:>6}{line}", flush=True)


def counted(scenario: Scenario) -> str:
    """The rest of a line."""
    stream = scenario.stream
    samples = stream.counts[:, 3]
    fewer = int((stream.sizes < scenario.backbone.features).sum())
    _, costs = learn_all(scenario)
    return (
        f"{stream.sizes.size:>9}{fewer:>29}{len(samples):>7}{int((samples == 1).sum()):>15}"
        f"{costs.samples_revealed:>10}{costs.revealing_uploads:>19}"
    )


@dataclass(frozen=True)
class Found:
    """What an upload tells of one sample."""

    features: Tensor  # (features,)
    label: str  # the class of the column


def first_found(scenario: Scenario) -> Found:
    """The first column of an upload's F^T Y that is a single sample, by the upload alone."""
    names = [scenario.dataset.classes[label] for label in scenario.stream.order]
    for gram, cross in uploads(scenario):
        (single,) = torch.where((samples_by_class(gram, cross) - 1).abs() < ALMOST)
        if len(single):
            return Found(cross[:, single[0]], names[single[0]])
    raise SystemExit("No client holds a single sample of a class on this stream: set another partition.alpha.")


def uploads(scenario: Scenario) -> Iterator[tuple[Tensor, Tensor]]:
    """F^T F and F^T Y of every client, task by task, where there are fewer samples than features."""
    method = scenario.method()
    federation = scenario.federation(InProcess())
    for task in scenario.stream.tasks:
        for upload in federation.open(method, task).map(method.summarise, task.seen):
            if 0 < upload.counts[0] < scenario.backbone.features:
                yield method.sums.system(upload)


def samples_by_class(gram: Tensor, cross: Tensor) -> Tensor:
    """The diagonal of Y^T F (F^T F)^+ F^T Y, which is Y^T Y if the rows of F are independent."""
    return (cross * (torch.linalg.pinv(gram, hermitian=True) @ cross)).sum(dim=0)


def picture(scenario: Scenario) -> Figure:
    """The training image that was found, and test images."""
    found = first_found(scenario)
    cosines = cosine_similarity(scenario.test.tensor.double(), found.features)
    nearest = cosines.topk(NEIGHBOURS)
    distances = (scenario.train.tensor.double() - found.features).abs().amax(dim=1)
    own = int(distances.argmin())
    figure = Figure(figsize=(1.5 * (NEIGHBOURS + 1), 1.9), layout="constrained")
    panels = figure.subplots(1, NEIGHBOURS + 1)
    data = scenario.dataset
    pictures = [*data.train.read(np.array([own])), *data.test.read(nearest.indices.numpy())]
    titles = [f"training image,\nclass {found.label}"]
    for index, cosine in zip(nearest.indices, nearest.values, strict=True):
        titles.append(f"test image, class\n{data.classes[data.test.labels[index]]}, cosine {cosine:.3f}")
    for panel, image, title in zip(panels, pictures, titles, strict=True):
        panel.imshow(image.permute(1, 2, 0).numpy())
        panel.set_title(title, fontsize=8)
        panel.set_axis_off()
    print(f"features read off an upload differ from those of training sample {own} by {distances[own]:.4f} at most")
    return figure


if __name__ == "__main__":
    main()
