"""All samples of the tensor ops."""

from __future__ import annotations

import samples_backward
import samples_elementwise
import samples_indexing
import samples_linear
import samples_reduction
import samples_shape
from tensor_support import Sample

FAMILIES: dict[str, list[Sample]] = {
    "elementwise": samples_elementwise.SAMPLES,
    "reduction": samples_reduction.SAMPLES,
    "shape": samples_shape.SAMPLES,
    "indexing": samples_indexing.SAMPLES,
    "linear": samples_linear.SAMPLES,
    "backward": samples_backward.SAMPLES,
}
SAMPLES: list[Sample] = [sample for family in FAMILIES.values() for sample in family]
NO_DERIVATIVE = {
    "isnan",
    "isfinite",
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "argmax",
    "argmin",
    "argsort",
    "dim",
}
DIFFERENTIABLE = [
    sample
    for sample in SAMPLES
    if any(":" not in text for text in sample.operands)
    and sample.name.removeprefix("hl.") not in NO_DERIVATIVE
    and not any(":i" in text or ":ui" in text for text in sample.results or ())
]


def few(samples: list[Sample], count: int) -> list[Sample]:
    """At most `count` samples of each op, spread over its list."""
    chosen: list[Sample] = []
    for name in dict.fromkeys(sample.name for sample in samples):
        own = [sample for sample in samples if sample.name == name]
        chosen += own[:: max(len(own) // count, 1)][:count]
    return chosen
