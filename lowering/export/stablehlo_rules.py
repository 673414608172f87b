"""One StableHLO counterpart for each `prim` operation that has one (control flow: `stablehlo.py`).

Functions that StableHLO lacks are written in CHLO, its companion dialect, as JAX writes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from gradopt.ir.attributes import DenseElementsAttr
from gradopt.ir.types import BF16, F16, F32, I1, I64, FloatType, TensorType, tensor
from gradopt.ir.values import Value
from gradopt.lowering.export.stablehlo_builder import Unsupported, Writer, dialect, i64s

__all__ = ["RULES"]

Rule = Callable[[Writer, Any], "Value | Sequence[Value]"]


def _same(name: str) -> Rule:
    return lambda w, op: w.one(name, op.operands, op.results[0].type)


def _identity(w: Writer, op: Any) -> Sequence[Value]:
    return list(op.operands)


def _is_float(value: Value) -> bool:
    return isinstance(value.type.element, FloatType)  # type: ignore[attr-defined]


# --- elementwise


def _not(w: Writer, op: Any) -> Value:
    return w.one("not", op.operands)


def _abs(w: Writer, op: Any) -> Value:
    return op.x if op.x.type.element.text.startswith("ui") else w.one("abs", [op.x])


def _sign(w: Writer, op: Any) -> Value:
    type, zero = op.x.type, w.fill(op.x.type, 0)
    if type.element.text.startswith("ui"):
        return w.convert(w.compare("NE", op.x, zero), type.element)
    return w.select(w.compare("EQ", op.x, zero), zero, w.one("sign", [op.x]))  # (StableHLO keeps the sign of -0)


def _trunc(w: Writer, op: Any) -> Value:
    negative = w.compare("LT", op.x, w.fill(op.x.type, 0))
    return w.select(negative, w.one("ceil", [op.x]), w.one("floor", [op.x]))


def _exp2(w: Writer, op: Any) -> Value:
    return w.one("power", [w.fill(op.x.type, 2), op.x])


def _log2(w: Writer, op: Any) -> Value:
    return w.one("divide", [w.one("log", [op.x]), w.fill(op.x.type, math.log(2))])


def _recip(w: Writer, op: Any) -> Value:
    return w.one("divide", [w.fill(op.x.type, 1), op.x])


def _mul_zero(w: Writer, op: Any) -> Value:
    zero = w.fill(op.a.type, 0)
    either = w.one("or", [w.compare("EQ", op.a, zero), w.compare("EQ", op.b, zero)])
    return w.select(either, zero, w.one("multiply", [op.a, op.b]))


def _divide(name: str) -> Rule:
    """Division or remainder; integers give 0 where b is 0."""
    def rule(w: Writer, op: Any) -> Value:
        if _is_float(op.a):
            return w.one(name, [op.a, op.b])
        zero = w.fill(op.a.type, 0)
        none = w.compare("EQ", op.b, zero)
        return w.select(none, zero, w.one(name, [op.a, w.select(none, w.fill(op.a.type, 1), op.b)]))

    return rule


def _pow(w: Writer, op: Any) -> Value:
    if not _is_float(op.a):
        raise Unsupported("of integers has no StableHLO counterpart")
    return w.one("power", [op.a, op.b])


def _shift_right(w: Writer, op: Any) -> Value:
    unsigned = op.a.type.element.signedness == "unsigned"
    return w.one("shift_right_logical" if unsigned else "shift_right_arithmetic", [op.a, op.b])


# --- data and shapes


def _iota(w: Writer, op: Any) -> Value:
    return w.one("iota", [], op.results[0].type, iota_dimension=op.axis)


def _expand(w: Writer, op: Any) -> Value:
    type, source = op.results[0].type, op.x.type
    kept = [axis for axis, size in enumerate(type.dims) if axis not in op.axes and size != 1]
    own = w.reshape(op.x, [size for size in source.dims if size != 1])
    return w.one("broadcast_in_dim", [own], type, broadcast_dimensions=i64s(kept))


def _pad(w: Writer, op: Any) -> Value:
    return w.one("pad", [op.x, op.value], op.results[0].type, edge_padding_low=i64s(op.low), edge_padding_high=i64s(op.high),
                 interior_padding=i64s(op.interior))


def _slice(w: Writer, op: Any) -> Value:
    ends = [min(end, size) for end, size in zip(op.end, op.x.type.dims)]  # (an end may be written as the largest number)
    return w.one("slice", [op.x], op.results[0].type, start_indices=i64s(op.begin), limit_indices=i64s(ends), strides=i64s(op.strides))


# --- reductions

COMBINERS = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum", "and": "and", "or": "or"}


def _identity_of(w: Writer, kind: str, element: Any) -> Value:
    if kind in ("sum", "or"):
        value: Any = 0
    elif kind == "prod":
        value = 1
    elif kind == "and":
        value = element is I1 or (-1 if element.signedness != "unsigned" else (1 << element.width) - 1)
    elif isinstance(element, FloatType):
        value = -math.inf if kind == "max" else math.inf
    else:
        signed = element is not I1 and element.signedness != "unsigned"
        low, high = (-1 << element.width - 1, (1 << element.width - 1) - 1) if signed else (0, (1 << element.width) - 1)
        value = low if kind == "max" else high
    return w.fill(tensor((), element), value)


def _combiner(w: Writer, kind: str, element: Any) -> Any:
    return w.combiner([element], lambda inner, c: [inner.one(COMBINERS[kind], c)])


def _reduce(w: Writer, op: Any) -> Value:
    element = op.x.type.element
    wide = F32 if op.kind == "sum" and element in (F16, BF16) else element
    x, type = w.convert(op.x, wide), op.results[0].type
    found, = w.create("reduce", [x, _identity_of(w, op.kind, wide)], [tensor(type.dims, wide)], [_combiner(w, op.kind, wide)],
                      dimensions=i64s(op.axes))
    return w.convert(found, element)


def _arg_reduce(w: Writer, op: Any) -> Value:
    x, type = op.x.type, op.results[0].type
    places = w.one("iota", [], tensor(x.dims, I64), iota_dimension=op.axis)
    better = "GT" if op.kind == "max" else "LT"

    def body(inner: Writer, c: list[Value]) -> list[Value]:
        a, i, b, j = c
        first = inner.one("or", [inner.compare(better, a, b), inner.compare("NE", a, a)])  # (a NaN is not equal to itself)
        both = inner.one("and", [inner.compare("NE", a, a), inner.compare("NE", b, b)])
        same = inner.one("or", [inner.compare("EQ", a, b), both])
        earlier = inner.select(same, inner.compare("LT", i, j), first)
        return [inner.select(earlier, a, b), inner.select(earlier, i, j)]

    start = [_identity_of(w, op.kind, x.element), w.fill(tensor((), I64), (1 << 63) - 1)]
    results = w.create("reduce", [op.x, places, *start], [tensor(type.dims, x.element), tensor(type.dims, I64)],
                       [w.combiner([x.element, I64], body)], dimensions=i64s([op.axis]))
    return results[1]


def _cumulative(w: Writer, op: Any) -> Value:
    type: TensorType = op.x.type
    size: Any = type.dims[op.axis]
    window = [size if axis == op.axis else 1 for axis in range(type.rank)]
    edges = (size - (not op.exclusive), -1 if op.exclusive else 0)
    low, high = edges[::-1] if op.reverse else edges
    if not size:
        return op.x  # type: ignore[no-any-return]
    padding = [[low, high] if axis == op.axis else [0, 0] for axis in range(type.rank)]
    ones = i64s([1] * type.rank)
    found, = w.create("reduce_window", [op.x, _identity_of(w, op.kind, type.element)], [type], [_combiner(w, op.kind, type.element)],
                      window_dimensions=i64s(window), window_strides=ones, base_dilations=ones, window_dilations=ones,
                      padding=_dense(padding))
    return found


def _dense(values: Sequence[Sequence[int]]) -> DenseElementsAttr:
    import numpy as np
    from gradopt.dialects.arrays import to_elements

    array = np.array(values, np.int64).reshape(len(values), 2)
    return to_elements(array, tensor(array.shape, I64))


def _sort(w: Writer, op: Any) -> Sequence[Value]:
    def body(inner: Writer, c: list[Value]) -> list[Value]:
        half = len(c) // 2
        a, b = c[0], c[half]
        before = inner.compare("GT" if op.descending else "LT", a, b)
        last = inner.one("and", [inner.compare("NE", b, b), inner.compare("EQ", a, a)])
        return [inner.one("or", [before, last])]

    elements = [value.type.element for value in op.operands]
    region = w.region([tensor((), element) for element in elements for _ in (0, 1)], lambda inner, c: body(inner, [*c[::2], *c[1::2]]))
    return w.create("sort", op.operands, [result.type for result in op.results], [region], dimension=op.axis, is_stable=True)


# --- indexing


def _indices(w: Writer, op: Any, sizes: Sequence[int]) -> Value:
    """The indices as i64, negative ones counted from the end. Those outside are brought inside where the mode says so; else StableHLO's
    gather clips them and its scatter leaves them out."""
    type = tensor(op.indices.type.dims, I64)
    limits, = w.create("constant", [], [type], value=_filled(type, sizes))
    zero = w.fill(type, 0)
    indices = op.indices
    if indices.type.element.text == "ui64":  # what i64 cannot hold is outside anyway
        indices = w.one("minimum", [indices, w.fill(indices.type, (1 << 63) - 1)])
    wide = w.convert(indices, I64)
    index = w.select(w.compare("LT", wide, zero), w.one("add", [wide, limits]), wide)
    if op.mode == "wrap":
        rest = w.one("remainder", [index, limits])
        return w.select(w.compare("LT", rest, zero), w.one("add", [rest, limits]), rest)
    if op.mode == "clip":
        return w.one("clamp", [zero, index, w.one("subtract", [limits, w.fill(type, 1)])], type)
    return index


def _filled(type: TensorType, row: Sequence[int]) -> DenseElementsAttr:
    """`row` along the last axis (or one number everywhere)."""
    import numpy as np
    from gradopt.dialects.arrays import to_elements

    return to_elements(np.broadcast_to(np.array(row[0] if len(row) == 1 else row, np.int64), type.shape), type)  # type: ignore[arg-type]


def _masked(w: Writer, op: Any, indices: Value, sizes: Sequence[int], place: int, found: Value) -> Value:
    """What was gathered; 0 (or NaN) where an index lies outside. The first axis of the indices is axis `place` of the result."""
    type: Any = indices.type
    if op.mode not in ("fill", "nan"):
        return found
    limits, = w.create("constant", [], [type], value=_filled(type, sizes))
    inside = w.one("and", [w.compare("GE", indices, w.fill(type, 0)), w.compare("LT", indices, limits)])
    dims = list(type.dims)
    if op.name.endswith("_nd"):
        dims.pop()
        inside, = w.create("reduce", [inside, w.fill(tensor((), I1), True)], [tensor(dims, I1)], [_combiner(w, "and", I1)],
                           dimensions=i64s([len(dims)]))
    result: Any = found.type
    everywhere = w.one("broadcast_in_dim", [inside], tensor(result.dims, I1),
                       broadcast_dimensions=i64s(list(range(place, place + len(dims)))))
    return w.select(everywhere, found, w.fill(result, math.nan if op.mode == "nan" else 0))


def _gather(w: Writer, op: Any) -> Value:
    x, result, count = op.x.type, op.results[0].type, op.indices.type.rank
    offsets = [*range(op.axis), *range(op.axis + count, result.rank)]
    numbers = (f"offset_dims = {offsets}, collapsed_slice_dims = [{op.axis}], start_index_map = [{op.axis}], index_vector_dim = {count}")
    return _gathered(w, op, [x.dims[op.axis]], numbers, [1 if axis == op.axis else size for axis, size in enumerate(x.dims)], op.axis)


def _gather_nd(w: Writer, op: Any) -> Value:
    x, result, indices = op.x.type, op.results[0].type, op.indices.type
    depth = indices.dims[-1]
    numbers = (f"offset_dims = {list(range(indices.rank - 1, result.rank))}, collapsed_slice_dims = {list(range(depth))}, "
               f"start_index_map = {list(range(depth))}, index_vector_dim = {indices.rank - 1}")
    return _gathered(w, op, x.dims[:depth], numbers, [1] * depth + list(x.dims[depth:]), 0)


def _gathered(w: Writer, op: Any, limits: Sequence[int], numbers: str, sizes: Sequence[int], place: int) -> Value:
    indices = _indices(w, op, limits)
    found = w.one("gather", [op.x, indices], op.results[0].type, dimension_numbers=dialect(f".gather<{numbers}>"),
                  indices_are_sorted=False, slice_sizes=i64s(sizes))
    return _masked(w, op, indices, limits, place, found)


def _scatter_into(w: Writer, op: Any, indices: Value, numbers: str) -> Value:
    name = {"set": "", "add": "add", "mul": "multiply", "max": "maximum", "min": "minimum"}[op.kind]
    region = w.combiner([op.x.type.element], lambda inner, c: [inner.one(name, c) if name else c[1]])
    found, = w.create("scatter", [op.x, indices, op.update], [op.x.type], [region], indices_are_sorted=False,
                      scatter_dimension_numbers=dialect(f".scatter<{numbers}>"), unique_indices=False)
    return found


def _scatter(w: Writer, op: Any) -> Value:
    x, update, count = op.x.type, op.update.type, op.indices.type.rank
    window = [*range(op.axis), *range(op.axis + count, update.rank)]
    return _scatter_into(w, op, _indices(w, op, [x.dims[op.axis]]),
                         f"update_window_dims = {window}, inserted_window_dims = [{op.axis}], scatter_dims_to_operand_dims = [{op.axis}], "
                         f"index_vector_dim = {count}")


def _scatter_nd(w: Writer, op: Any) -> Value:
    x, update, indices = op.x.type, op.update.type, op.indices.type
    depth = indices.dims[-1]
    return _scatter_into(w, op, _indices(w, op, x.dims[:depth]),
                         f"update_window_dims = {list(range(indices.rank - 1, update.rank))}, inserted_window_dims = {list(range(depth))}, "
                         f"scatter_dims_to_operand_dims = {list(range(depth))}, index_vector_dim = {indices.rank - 1}")


def _dynamic_slice(w: Writer, op: Any) -> Value:
    x, *starts = op.operands
    return w.one("dynamic_slice", [x, *(w.convert(start, I64) for start in starts)], op.results[0].type, slice_sizes=i64s(op.sizes))


def _dynamic_update_slice(w: Writer, op: Any) -> Value:
    x, update, *starts = op.operands
    return w.one("dynamic_update_slice", [x, update, *(w.convert(start, I64) for start in starts)])


# --- linear algebra


def _dot(w: Writer, op: Any) -> Value:
    numbers = dialect(f".dot<lhs_batching_dimensions = {list(op.lhs_batch)}, rhs_batching_dimensions = {list(op.rhs_batch)}, "
                      f"lhs_contracting_dimensions = {list(op.lhs_contract)}, rhs_contracting_dimensions = {list(op.rhs_contract)}>")
    return w.one("dot_general", [op.a, op.b], op.results[0].type, dot_dimension_numbers=numbers)


def _conv(w: Writer, op: Any) -> Value:
    spatial = list(range(op.x.type.rank - 2))
    places = ", ".join(str(axis) for axis in spatial)
    tail = f", {places}" if spatial else ""
    numbers = dialect(f".conv<[b, f{tail}]x[o, i{tail}]->[b, f{tail}]>")
    return w.one("convolution", [op.x, op.w], op.results[0].type, batch_group_count=1, dimension_numbers=numbers,
                 feature_group_count=op.groups, lhs_dilation=i64s(op.lhs_dilation), padding=_dense(op.padding),
                 rhs_dilation=i64s(op.rhs_dilation), window_strides=i64s(op.strides))


def _cholesky(w: Writer, op: Any) -> Value:
    type = op.a.type
    factor = w.one("cholesky", [op.a], type, lower=True)
    row, column = (w.one("iota", [], tensor(type.dims, I64), iota_dimension=type.rank - 2 + place) for place in (0, 1))
    return w.select(w.compare("GE", row, column), factor, w.fill(type, 0))


def _triangular_solve(w: Writer, op: Any) -> Value:
    return w.one("triangular_solve", [op.a, op.b], op.results[0].type, left_side=True, lower=op.lower, unit_diagonal=False,
                 transpose_a=dialect(f"<transpose {'TRANSPOSE' if op.transpose else 'NO_TRANSPOSE'}>"))


RULES: dict[str, Rule] = {
    "neg": _same("negate"), "abs": _abs, "sign": _sign, "not": _not, "exp": _same("exponential"), "exp2": _exp2,
    "expm1": _same("exponential_minus_one"), "log": _same("log"), "log2": _log2, "log1p": _same("log_plus_one"), "sin": _same("sine"),
    "cos": _same("cosine"), "tan": _same("tan"), "tanh": _same("tanh"), "sqrt": _same("sqrt"), "rsqrt": _same("rsqrt"), "recip": _recip,
    "floor": _same("floor"), "ceil": _same("ceil"), "round": _same("round_nearest_even"), "trunc": _trunc,
    **{name: _same(f"chlo.{name}") for name in ("asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "erf", "erfc")},
    "erfinv": _same("chlo.erf_inv"),
    "add": _same("add"), "sub": _same("subtract"), "mul": _same("multiply"), "mul_zero": _mul_zero, "div": _divide("divide"),
    "rem": _divide("remainder"), "pow": _pow, "max": _same("maximum"), "min": _same("minimum"), "atan2": _same("atan2"),
    "and": _same("and"), "or": _same("or"), "xor": _same("xor"), "shl": _same("shift_left"), "shr": _shift_right,
    "cmp": lambda w, op: w.compare(op.predicate.upper(), op.a, op.b), "select": _same("select"), "cast": _same("convert"),
    "bitcast": _same("bitcast_convert"), "constant": lambda w, op: w.create("constant", [], [op.results[0].type], value=op.value),
    "iota": _iota, "shape_cast": _identity, "stop_gradient": _identity, "contiguous": _identity, "copy": _identity,
    "barrier": lambda w, op: w.create("optimization_barrier", op.operands, [result.type for result in op.results]),
    "reduce": _reduce, "arg_reduce": _arg_reduce, "cumulative": _cumulative, "sort": _sort, "reshape": _same("reshape"), "expand": _expand,
    "permute": lambda w, op: w.one("transpose", [op.x], op.results[0].type, permutation=i64s(op.axes)),
    "flip": lambda w, op: w.one("reverse", [op.x], dimensions=i64s(op.axes)), "pad": _pad, "slice": _slice,
    "concat": lambda w, op: w.one("concatenate", op.operands, op.results[0].type, dimension=op.axis),
    "dynamic_slice": _dynamic_slice, "dynamic_update_slice": _dynamic_update_slice, "gather": _gather, "gather_nd": _gather_nd,
    "scatter": _scatter, "scatter_nd": _scatter_nd, "dot": _dot, "conv": _conv, "cholesky": _cholesky,
    "triangular_solve": _triangular_solve,
}
