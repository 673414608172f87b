"""All samples of the tensor ops."""

from __future__ import annotations

import samples_backward
import samples_elementwise
import samples_indexing
import samples_linear
import samples_ranks
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
    "ranks": samples_ranks.SAMPLES,
}
SAMPLES: list[Sample] = list({sample.label: sample for family in FAMILIES.values() for sample in family}.values())
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


def rank(sample: Sample) -> int:
    """The rank of its first operand, or of its first result where a result's type gives the shape."""
    name = sample.name.removeprefix("hl.")
    text = (sample.results or sample.operands)[0] if name in RESULT_GIVES_THE_SHAPE else sample.operands[0]
    return len([size for size in text.partition(":")[0].split("x") if size])


RESULT_GIVES_THE_SHAPE = {"constant", "zeros", "ones", "full", "iota", "eye", "random_uniform", "random_normal"} | {
    f"bwd.{name}" for name in ("cumsum", "take", "gather", "put_along_axis", "indexing_one_hot", "take_multi")
}


def one_a_rank(samples: list[Sample]) -> list[Sample]:
    """A sample of each op at each rank, the last of those of no empty shape."""
    found: dict[tuple[str, int], Sample] = {}
    for sample in samples:
        if (sample.name, rank(sample)) not in found or not any("0" in each.split(":")[0].split("x") for each in sample.operands):
            found[sample.name, rank(sample)] = sample
    return list(found.values())


def few(samples: list[Sample], count: int) -> list[Sample]:
    """At most `count` samples of each op, spread over its list."""
    chosen: list[Sample] = []
    for name in dict.fromkeys(sample.name for sample in samples):
        own = [sample for sample in samples if sample.name == name]
        chosen += own[:: max(len(own) // count, 1)][:count]
    return chosen
