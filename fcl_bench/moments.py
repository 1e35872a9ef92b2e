"""Second moments: sums over samples from which ridge regression follows, in float64 or in whole numbers.

Whole numbers add up exactly: the sums are the same to the bit, however samples are spread and in whatever order they
come.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Literal, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from fcl_bench import linalg
from fcl_bench.backbone import Backbone
from fcl_bench.door import ByClass, Each, Gram, Kind, Range, Shape, Total, Triangle, Within
from fcl_bench.revealed import ClassSums
from fcl_bench.threads import threads_for
from fcl_bench.whole_numbers import PART_BITS, Grid, Way, gram, smallest, smallest_triangle, sums_by_class, type_for

Numbers = Literal["integer", "float64"]

BATCH = 2048  # rows turned into float64 at a time
ROWS = 2**14  # of whole numbers of a byte at a time
MANY = 2**17  # samples, for a task
KNOWN_BITS = 7
UNKNOWN_BITS = 16
UNKNOWN_BOUND = 64.0


class Batches(Protocol):
    """Samples, such as those of a client."""

    def __len__(self) -> int: ...

    def batches(self, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Features and labels."""
        ...


@dataclass(frozen=True)
class Moments:
    """Sums over some samples with features F and one-hot labels Y."""

    gram: Annotated[  # F^T F, its lower triangle
        Tensor,
        Triangle("features"),
        Kind("sums.kind"),
        Gram("features", largest="held * sums.largest * sums.largest"),
    ]
    cross: Annotated[  # Y^T F, (classes, features)
        Tensor,
        Shape(("classes", "registered"), "features"),
        Kind("sums.kind"),
        Within("held * sums.largest"),
        ByClass(),
    ]
    counts: Annotated[  # of whole numbers: how many samples, and how many features were clipped; (0,) in float64
        Tensor,
        Shape("sums.counted"),
        Kind(torch.int64),
        Each(Range(0, "held"), Range(0, "held * features")),
    ]
    by_class: Annotated[  # how many samples of each class; (0,) where the arithmetic does not count them
        Tensor,
        Shape(("sums.counts_classes * classes", "sums.counts_classes * registered")),
        Kind(torch.int64),
        Range(0),
        Total("held"),
        ByClass(),
    ] = field(default_factory=partial(torch.zeros, 0, dtype=torch.int64))
    noise: float | None = None  # the variance of what was added to each number to hide samples; None: nothing was

    def with_classes(self, classes: int, counted: int = 0) -> "Moments":
        """With room for the classes registered since, and for their counts if these are ``counted``."""
        missing = classes - len(self.cross)
        cross = pad(self.cross, (0, 0, 0, missing))
        return replace(self, cross=cross, by_class=pad(self.by_class, (0, counted * missing)))


class Arithmetic(Protocol):
    """How sums are computed and added."""

    kind: torch.dtype  # in which any sum has room
    none_clipped: Tensor  # how many features were clipped, before there are any; (0,) in float64
    counted: int  # numbers in the counts of moments

    @property
    def counts_classes(self) -> int:
        """1 if moments say how many samples of each class there are, else 0."""
        ...

    @property
    def largest(self) -> float:
        """The largest number that a feature can be, in sums."""
        ...

    @property
    def sum_bits(self) -> int:
        """Of a number in sums over a task."""
        ...

    def class_sums(self, samples: Batches, features: int, classes: int) -> tuple[Tensor, Tensor]:
        """The sum of the features of every class, (classes, features), and how many features were clipped."""
        ...

    def nothing(self, features: int) -> Moments:
        """The moments of no samples and no classes."""
        ...

    def moments(self, samples: Batches, features: int, classes: int) -> Moments:
        """The moments of these samples."""
        ...

    def total(self, start: Moments, others: Iterable[Moments]) -> Moments:
        """The moments of all these samples. The others come one by one, with the classes of the first or fewer."""
        ...

    def rest(self, whole: Moments, part: Moments) -> Moments:
        """The moments of the samples of the whole that are not in the part, which has the same classes."""
        ...

    def in_one_place(self) -> "Arithmetic":
        """The same, by the plainest products: for a second opinion."""
        ...

    def system(self, moments: Moments) -> tuple[Tensor, Tensor]:
        """F^T F, (features, features), and F^T Y, (features, classes), in float64 and in the unit of features."""
        ...

    def in_unit_of_features(self, sums: Tensor) -> ClassSums:
        """Sums of :meth:`class_sums`, and how exactly they tell a feature."""
        ...


@dataclass(frozen=True)
class InFloat64:
    """Sums are rounded: their last digits depend on the order of samples."""

    counts_classes: int = 0
    kind = torch.float64
    none_clipped = torch.zeros(0, dtype=torch.int64)
    counted = 0
    largest = 1e100
    sum_bits = 64

    def class_sums(self, samples: Batches, features: int, classes: int) -> tuple[Tensor, Tensor]:
        """See :class:`Arithmetic`."""
        sums = torch.zeros(classes, features, dtype=torch.float64)
        for inputs, labels in samples.batches(BATCH):
            sums.index_add_(0, labels, inputs.double())
        return sums, self.none_clipped

    def nothing(self, features: int) -> Moments:
        """See :class:`Arithmetic`."""
        return Moments(
            gram=linalg.empty_triangle(features),
            cross=torch.zeros(0, features, dtype=torch.float64),
            counts=torch.zeros(0, dtype=torch.int64),
        )

    def moments(self, samples: Batches, features: int, classes: int) -> Moments:
        """See :class:`Arithmetic`."""
        sums = self.nothing(features).with_classes(classes, self.counts_classes)
        with threads_for(len(samples) * features):
            for inputs, labels in samples.batches(BATCH):
                rows = inputs.double()
                linalg.add_gram(sums.gram, rows)
                sums.cross.index_add_(0, labels, rows)
                sums.by_class.add_(class_counts(labels, classes, self.counts_classes))
        return sums

    def total(self, start: Moments, others: Iterable[Moments]) -> Moments:
        """See :class:`Arithmetic`."""
        gram = start.gram.clone()
        cross = start.cross.clone()
        by_class = start.by_class.clone()
        noise = start.noise
        for other in others:
            gram += other.gram
            cross[: len(other.cross)] += other.cross
            by_class[: len(other.by_class)] += other.by_class
            if other.noise is not None:
                noise = (noise or 0.0) + other.noise
        return Moments(gram, cross, start.counts, by_class, noise)

    def rest(self, whole: Moments, part: Moments) -> Moments:
        """See :class:`Arithmetic`."""
        by_class = whole.by_class - part.by_class
        return replace(whole, gram=whole.gram - part.gram, cross=whole.cross - part.cross, by_class=by_class)

    def in_one_place(self) -> "InFloat64":
        """See :class:`Arithmetic`."""
        return self

    def system(self, moments: Moments) -> tuple[Tensor, Tensor]:
        """See :class:`Arithmetic`."""
        return linalg.whole(moments.gram, moments.cross.shape[1]), moments.cross.T

    def in_unit_of_features(self, sums: Tensor) -> ClassSums:
        """See :class:`Arithmetic`; the sum of one sample is not rounded."""
        return ClassSums(sums, resolution=0.0)


@dataclass(frozen=True)
class InWholeNumbers:
    """Features are rounded to a grid, and sums are exact; ``way`` is how products are computed, the quickest if None.

    Moments have the smallest integer types that hold them.
    """

    grid: Grid
    way: Way | None = None
    counts_classes: int = 0
    kind = torch.int64
    none_clipped = torch.zeros((), dtype=torch.int64)
    counted = 2

    @property
    def largest(self) -> float:
        """See :class:`Arithmetic`."""
        return self.grid.largest

    @property
    def sum_bits(self) -> int:
        """See :class:`Arithmetic`."""
        return torch.iinfo(type_for(MANY, self.grid.largest**2)).bits

    def class_sums(self, samples: Batches, features: int, classes: int) -> tuple[Tensor, Tensor]:
        """See :class:`Arithmetic`."""
        self.grid.check(len(samples))
        sums = torch.zeros(classes, features, dtype=torch.int64)
        clipped = 0
        for inputs, labels in samples.batches(self._rows_at_once):
            rows, beyond = self.grid.rounded(inputs)
            sums += sums_by_class(rows, labels, classes, self.grid.bits, self.way)
            clipped += beyond
        return smallest(sums), torch.tensor(clipped)

    def nothing(self, features: int) -> Moments:
        """See :class:`Arithmetic`."""
        return Moments(
            gram=linalg.empty_triangle(features, torch.int8),
            cross=torch.zeros(0, features, dtype=torch.int8),
            counts=torch.zeros(2, dtype=torch.int64),
        )

    def moments(self, samples: Batches, features: int, classes: int) -> Moments:
        """See :class:`Arithmetic`."""
        self.grid.check(len(samples))
        if len(samples) == 0:
            return self.nothing(features).with_classes(classes, self.counts_classes)
        with threads_for(max(len(samples), features) * features):
            parts = (self._of_batch(*batch, classes) for batch in samples.batches(self._rows_at_once))
            first = next(parts)
            sums = self.total(first, parts) if len(samples) > self._rows_at_once else first
            return replace(sums, gram=smallest_triangle(sums.gram, features), cross=smallest(sums.cross))

    def total(self, start: Moments, others: Iterable[Moments]) -> Moments:
        """See :class:`Arithmetic`; raises a :class:`UserError` before a sum may be inexact."""
        gram = start.gram.clone()
        cross = start.cross.clone()
        counts = start.counts.clone()
        by_class = start.by_class.clone()
        for other in others:
            counts += other.counts
            by_class[: len(other.by_class)] += other.by_class
            samples = int(counts[0])
            self.grid.check(samples)
            gram = gram.to(type_for(samples, self.grid.largest**2))
            cross = cross.to(type_for(samples, self.grid.largest))
            gram += other.gram
            cross[: len(other.cross)] += other.cross
        return Moments(gram, cross, counts, by_class)

    def rest(self, whole: Moments, part: Moments) -> Moments:
        """See :class:`Arithmetic`; in the types that :meth:`total` would have for what is left."""
        counts = whole.counts - part.counts
        samples = int(counts[0])
        gram = whole.gram - part.gram
        cross = whole.cross - part.cross
        return replace(
            whole,
            gram=gram.to(type_for(samples, self.grid.largest**2)),
            cross=cross.to(type_for(samples, self.grid.largest)),
            counts=counts,
            by_class=whole.by_class - part.by_class,
        )

    def in_one_place(self) -> "InWholeNumbers":
        """See :class:`Arithmetic`."""
        return replace(self, way="float64")

    def system(self, moments: Moments) -> tuple[Tensor, Tensor]:
        """See :class:`Arithmetic`."""
        gram = linalg.whole(moments.gram, moments.cross.shape[1], torch.float64)
        return gram.mul_(self.grid.step**2), moments.cross.T.double() * self.grid.step

    def in_unit_of_features(self, sums: Tensor) -> ClassSums:
        """See :class:`Arithmetic`."""
        return ClassSums(sums.double() * self.grid.step, self.grid.resolution)

    @property
    def _rows_at_once(self) -> int:
        """Few where numbers take as much room as in float64."""
        return ROWS if self.grid.bits <= PART_BITS else BATCH

    def _of_batch(self, features: Tensor, labels: Tensor, classes: int) -> Moments:
        rows, clipped = self.grid.rounded(features)
        if self.way == "float64":
            rows = rows.double()  # once for both products
        return Moments(
            gram=gram(rows, self.grid.bits, self.way),
            cross=sums_by_class(rows, labels, classes, self.grid.bits, self.way),
            counts=torch.tensor([len(rows), clipped]),
            by_class=class_counts(labels, classes, self.counts_classes),
        )


def class_counts(labels: Tensor, classes: int, counted: int) -> Tensor:
    """How many samples of each class there are, (classes,); (0,) if they are not ``counted``.

    >>> class_counts(torch.tensor([2, 0, 2]), classes=4, counted=1)
    tensor([1, 0, 2, 0])
    """
    return labels.bincount(minlength=classes) if counted else labels.new_zeros(0)


def arithmetic_of(numbers: Numbers, bits: int | None, backbone: Backbone, counts_classes: bool = False) -> Arithmetic:
    """The arithmetic that a method's settings name, for the features of a backbone.

    Without ``bits`` there are 7 of them where the backbone knows the range of its features, else 16.
    """
    if numbers == "float64":
        return InFloat64(int(counts_classes))
    return InWholeNumbers(grid_for(backbone, bits), counts_classes=int(counts_classes))


def grid_for(backbone: Backbone, bits: int | None) -> Grid:
    """Where features of unknown range are rounded: between -64 and 64."""
    bound = backbone.inputs.high
    if bound is None:
        return Grid(bits or UNKNOWN_BITS, UNKNOWN_BOUND)
    return Grid(bits or KNOWN_BITS, bound)
