"""Replies are looked at before any method sees them: here is the vocabulary in which a reply type says what it is.

Rules stand beside the fields of a dataclass, in :class:`typing.Annotated`, as in
``counts: Annotated[Tensor, Shape("classes"), Kind(torch.int64), Range(0), Total("held")]``. Sizes and bounds may be
numbers, or names that :class:`fcl_bench.door.facts.Facts` can look up. What is not declared must still be of the type
that the annotation names, and finite.
"""

from fcl_bench.door.form import Kind, Like, LikeOwn, Shape, Triangle
from fcl_bench.door.values import ByClass, Each, Equal, Gram, Labels, Range, Total, Within

__all__ = [
    "ByClass",
    "Each",
    "Equal",
    "Gram",
    "Kind",
    "Labels",
    "Like",
    "LikeOwn",
    "Range",
    "Shape",
    "Total",
    "Triangle",
    "Within",
]
