"""What attributes mean that many operations share: the documentation of those whose declaration has none of its own."""

from __future__ import annotations

from gradopt.ir.declare import AttributeField

__all__ = ["attribute_note"]

_AXIS = "counts from the end where negative"
_AXES = "each counts from the end where negative"
_MASKED = "dy may hold lanes that a mask cut off: there a 0 wins over an infinite derivative"
_MODE = ("of an index outside, after negative ones count from the end: to the nearest (clip), modulo the size (wrap), read as 0 (fill) or "
         "NaN (nan) and not written; fast is the promise that there is none")

# in any dialect
_NOTES = {
    "masked": _MASKED,
    "keepdims": "the axes that are combined stay, with size 1",
    "eps": "added to the mean square under the root",
    "groups": "the channels fall into this many groups, which do not see each other",
    "layout": "what each axis of x is, a letter each: N batch, C channels, the others positions",
    "kernel_layout": "what each axis of the weight is: O output channels, I input channels of a group",
    "out_layout": "as `layout`, of the result",
    "strides": "the step along each axis",
    "padding": "[before, after] along each axis",
    "dilation": "the distance of neighbouring elements of a window, along each axis",
    "pool_size": "the size of a window along each axis",
    "ceil_mode": "a window may hang over the end",
    "count_include_pad": "an average counts the padding too",
    "num_groups": "the channels fall into this many groups",
    "momentum": "the share of this batch in the new running statistics",
    "training": "normalise by this batch's statistics instead of the running ones",
    "wrt": "the positions of what is differentiated by; everything that can be where absent",
    "num_carry": "how many of the operands, the first ones, go from step to step",
    "num_xs": "how many of the operands, the last ones, are read row by row",
    "num_ys": "how many results, the last ones, are written row by row",
    "length": "the number of steps",
    "checkpoints": "how many steps are kept for the derivative and the others computed again; 0: all are kept",
    "max_trip_count": "at most so many trips; the reverse derivative needs a bound",
    "head_dim": "the width of a head",
    "num_heads": "the number of heads of q",
    "n_rot": "how many of a head's elements are turned; the others stay",
    "interleaved": "the pairs are (2i, 2i + 1) instead of (i, i + n_rot / 2)",
    "reduction": "mean (weighted), sum, or none: one loss a target",
    "ignore_index": "a target that counts for nothing",
    "callee": "the function",
    "descending": "from the largest down",
    "begin": "the first element along each axis",
    "end": "the element behind the last one, along each axis",
    "low": "elements in front, along each axis",
    "high": "elements behind, along each axis",
    "interior": "elements between neighbours, along each axis",
    "lhs_batch": "the batch axes of a",
    "rhs_batch": "the batch axes of b, in the order of those of a",
    "lhs_contract": "the axes of a that are summed over",
    "rhs_contract": "the axes of b that are summed over, in the order of those of a",
    "lower": "the lower triangle of a is read instead of the upper one",
    "transpose": "a transposed",
    "transpose_a": "the last two axes of a swapped",
    "transpose_b": "the last two axes of b swapped",
    "exclusive": "element i combines those before it, the identity first",
    "reverse": "from the back",
    "imode": "how a point between pixels is read",
    "border_mode": "what stands for a sample outside the image",
    "border_value": 'with border_mode = "constant": the pixels outside',
    "format": "what each axis of the image is",
    "message": "what the error says",
    "mask_kind": "which keys a query sees",
    "window": "how many keys before its own a query sees",
    "kind": "how elements combine",
    "equation": "a letter for each axis of each operand, `->`, and those of the result: ij,jk->ik",
    "bits": "of a level: 8, 4 or 2 in common use",
    "ste": "the straight-through derivative",
    "scale_mode": "where the step comes from: the largest element of this batch, or the operand `scale`",
    "factor": "how many times as many rows and columns",
    "kernel": "the size of a window along each axis",
    "kept": "the carries that have a trajectory; all of them where absent",
    "active": "the carries that have a cotangent; all floats where absent",
    "seeded": "the stacked results that have a cotangent; all floats where absent",
    "device": "a name",
}  # fmt: skip
_BY_KIND = {("mode", 'one of "constant", "reflect", "edge"'): "what is put there",
            ("mode", 'one of "clip", "wrap", "fill", "nan", "fast"'): _MODE,
            ("layout", 'one of "BHSD", "BSHD", "BS(HD)"'): "what each axis of q, k and v is: B batch, H heads, S positions, D width"}


def attribute_note(field: AttributeField[object], dialect: str) -> str:
    """The documentation of an attribute: its own, or what one of this name always means; else nothing."""
    if field.documentation:
        return field.documentation
    if dialect in ("hl", "bwd") and field.name in ("axis", "axes"):
        return _AXIS if field.name == "axis" else _AXES
    return _BY_KIND.get((field.name, field.kind.name)) or _NOTES.get(field.name, "")
