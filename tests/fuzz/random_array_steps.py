"""Steps of random programs: elementwise ops, reductions, shapes, products, indexing."""

from __future__ import annotations

import numpy as np
from gradopt.ir.types import tensor
from gradopt.ir.values import Value
from random_generator import MOST_ELEMENTS, Generator, broadcastable, scalar, shape_of, step


@step()
def unary(g: Generator) -> Value | None:
    names = "neg sin cos tanh sigmoid atan erf softplus silu gelu log_sigmoid mish square asinh sinc"
    return getattr(g.b.hl, str(g.random.choice(names.split())))(g.some())  # type: ignore[no-any-return]


@step()
def guarded_unary(g: Generator) -> Value | None:
    """Functions with a domain, of 1.5 + x^2 or of tanh(x) / 2."""
    x = g.some()
    if g.chance(0.5):
        inside = g.b.hl.add(g.b.hl.square(g.tame(x)), g.b.hl.full_like(x, scalar(g, 1.5)))
        return getattr(g.b.hl, str(g.random.choice(["sqrt", "rsqrt", "log", "log2", "log1p", "reciprocal", "acosh"])))(inside)  # type: ignore[no-any-return]
    inside = g.b.hl.multiply(g.tame(x), g.b.hl.full_like(x, scalar(g, 0.5)))
    names = "exp exp2 expm1 asin acos atanh sinh cosh tan erfinv erfc"
    return getattr(g.b.hl, str(g.random.choice(names.split())))(inside)  # type: ignore[no-any-return]


@step()
def binary(g: Generator) -> Value | None:
    """An elementwise op of two values that broadcast together, the second a new argument if none fits."""
    x = g.some()
    y = g.argument(broadcastable(g, shape_of(x))) if g.chance(0.5) else g.some()
    try:
        np.broadcast_shapes(shape_of(x), shape_of(y))
    except ValueError:
        y = g.argument(broadcastable(g, shape_of(x)))
    name = str(g.random.choice(["add", "subtract", "multiply", "logaddexp", "divide", "power", "atan2", "xlogy"]))
    if name in ("divide", "power", "atan2", "xlogy"):  # by a number beyond 1
        y = g.b.hl.add(g.b.hl.square(g.tame(y)), scalar(g, 1.25))
        if name == "power":
            x = g.b.hl.add(g.b.hl.square(g.tame(x)), scalar(g, 0.75))
    return getattr(g.b.hl, name)(*((x, y) if g.chance(0.5) or name in ("divide", "power", "atan2", "xlogy") else (y, x)))  # type: ignore[no-any-return]


@step()
def reduction(g: Generator) -> Value | None:
    x = g.some()
    name = str(g.random.choice(["sum", "mean", "variance", "logsumexp", "prod"]))
    axes = g.axes(len(shape_of(x)))
    if 0 in shape_of(x) and name in ("mean", "variance", "logsumexp"):
        name = "sum"
    x = g.tame(x) if name in ("prod", "sum") else x
    return getattr(g.b.hl, name)(x, axes=axes, keepdims=g.chance(0.4))  # type: ignore[no-any-return]


@step(smooth=False)
def order_reduction(g: Generator) -> Value | None:
    x = g.some()
    axes = g.axes(len(shape_of(x)))
    if 0 in shape_of(x):
        return None
    return getattr(g.b.hl, str(g.random.choice(["max", "min", "norm"])))(x, axes=axes, keepdims=g.chance(0.4))  # type: ignore[no-any-return]


@step(smooth=False)
def kinked_unary(g: Generator) -> Value | None:
    names = "relu relu6 abs leaky_relu elu celu selu hard_tanh hard_sigmoid hard_swish sign floor"
    return getattr(g.b.hl, str(g.random.choice(names.split())))(g.some())  # type: ignore[no-any-return]


@step(smooth=False)
def kinked_binary(g: Generator) -> Value | None:
    x = g.some()
    y = g.argument(broadcastable(g, shape_of(x)))
    name = str(g.random.choice(["maximum", "minimum", "where", "mod"]))
    if name == "where":
        return g.b.hl.where(g.b.hl.less(x, y), x, y)  # type: ignore[no-any-return]
    if name == "mod":
        y = g.b.hl.add(g.b.hl.square(g.tame(y)), scalar(g, 1.25))
    return getattr(g.b.hl, name)(x, y)  # type: ignore[no-any-return]


@step()
def along(g: Generator) -> Value | None:
    x = g.value(least_rank=1)
    if x is None:
        return None
    name = str(g.random.choice(["softmax", "log_softmax", "cumsum", "cumprod", "logcumsumexp", "layer_norm", "rms_norm"]))
    axis = g.axis(len(shape_of(x)))
    if name in ("cumsum", "cumprod"):
        chosen = None if g.chance(0.2) else axis
        return g.tame(getattr(g.b.hl, name)(g.tame(x), axis=chosen, exclusive=g.chance(0.4), reverse=g.chance(0.4)))
    if name.endswith("norm"):
        if shape_of(x)[axis] < 2 and g.smooth:
            return None
        more = [g.argument((shape_of(x)[axis],)) for _ in range(g.integer(0, 2))]
        return getattr(g.b.hl, name)(x, *more, axis=axis, eps=0.1)  # type: ignore[no-any-return]
    return getattr(g.b.hl, name)(x, axis=axis)  # type: ignore[no-any-return]


@step(smooth=False)
def ordering(g: Generator) -> Value | None:
    x = g.value(least_rank=1)
    if x is None:
        return None
    axis = g.axis(len(shape_of(x)))
    name = str(g.random.choice(["sort", "cummax", "cummin", "topk"]))
    if name == "sort":
        return g.b.hl.sort(x, axis=axis, descending=g.chance(0.5))  # type: ignore[no-any-return]
    if name == "topk":
        return g.b.hl.topk(x, k=g.integer(0, shape_of(x)[axis]), axis=axis)[0]  # type: ignore[no-any-return]
    return getattr(g.b.hl, name)(x, axis=axis)  # type: ignore[no-any-return]


@step()
def reshape(g: Generator) -> Value | None:
    x = g.some()
    count = int(np.prod(shape_of(x)))
    if count == 0 or g.chance(0.2):
        return g.b.hl.flatten(x)  # type: ignore[no-any-return]
    sizes: list[int] = []
    while count > 1 and len(sizes) < 3:
        divisors = [size for size in range(1, count + 1) if count % size == 0]
        sizes.append(divisors[g.integer(0, len(divisors) - 1)])
        count //= sizes[-1]
    sizes = [*sizes, count]
    return g.b.hl.reshape(x, result_types=[tensor(sizes, g.element)])  # type: ignore[no-any-return]


@step()
def shape_change(g: Generator) -> Value | None:
    x = g.some()
    shape = shape_of(x)
    rank = len(shape)
    name = str(g.random.choice(["permute", "expand", "squeeze", "broadcast", "flip", "roll", "tile", "triangle"]))
    if name == "permute":
        return g.b.hl.permute_dims(x, axes=[int(axis) for axis in g.random.permutation(rank)])  # type: ignore[no-any-return]
    if name == "expand" and rank < 4:
        return g.b.hl.expand_dims(x, axes=[g.integer(-rank - 1, rank)])  # type: ignore[no-any-return]
    if name == "squeeze":
        return g.b.hl.squeeze(x)  # type: ignore[no-any-return]
    if name == "broadcast" and rank < 4:
        sizes = [g.integer(0, 3) if size == 1 else size for size in shape]
        return g.b.hl.broadcast_to(x, result_types=[tensor([g.integer(1, 3), *sizes], g.element)])  # type: ignore[no-any-return]
    if name == "flip":
        return g.b.hl.flip(x, axes=g.axes(rank))  # type: ignore[no-any-return]
    if name == "roll" and rank:
        return g.b.hl.roll(x, shifts=[g.integer(-9, 9)], axes=[g.axis(rank)])  # type: ignore[no-any-return]
    if name == "tile" and rank and int(np.prod(shape)) < 100:
        return g.b.hl.tile(x, repeats=[g.integer(0 if g.chance(0.1) else 1, 2) for _ in range(rank)])  # type: ignore[no-any-return]
    if name == "triangle" and rank > 1:
        return (g.b.hl.tril if g.chance(0.5) else g.b.hl.triu)(x, k=g.integer(-2, 2))  # type: ignore[no-any-return]
    return None


def random_slices(g: Generator, shape: tuple[int, ...]) -> tuple[list[int], list[int], list[int]]:
    """begin, end and strides with negative and far values."""
    return ([g.integer(-size - 1, size + 1) for size in shape], [g.integer(-size - 2, size + 2) for size in shape],
            [int(g.random.choice([1, 1, 1, 2, 3, -1, -2])) for _ in shape])


@step()
def slices(g: Generator) -> Value | None:
    x = g.some()
    begin, end, strides = random_slices(g, shape_of(x))
    if g.chance(0.6):  # a wide one
        begin, end = [0 if stride > 0 else -1 for stride in strides], [
            9223372036854775807 if stride > 0 else -9223372036854775808 for stride in strides]
    y = g.b.hl.strided_slice(x, begin=begin, end=end, strides=strides)
    if g.chance(0.7):
        return y  # type: ignore[no-any-return]
    return g.b.hl.set_slice(x, g.argument(shape_of(y)), begin=begin, end=end, strides=strides)  # type: ignore[no-any-return]


@step()
def padding(g: Generator) -> Value | None:
    x = g.some()
    shape = shape_of(x)
    if int(np.prod([size + 4 for size in shape])) > 3 * MOST_ELEMENTS:
        return None
    mode = str(g.random.choice(["constant", "reflect", "edge"]))
    if mode == "constant":
        low = [g.integer(-size // 2, 2) for size in shape]
        high = [g.integer(-(size + min(before, 0)), 2) if g.chance(0.3) else g.integer(0, 2) for size, before in zip(shape, low)]
        return g.b.hl.pad(x, low=low, high=high, value=0.5)  # type: ignore[no-any-return]
    most = [min(2, size - 1) if mode == "reflect" else 2 if size else 0 for size in shape]
    low, high = ([g.integer(0, max(size, 0)) for size in most] for _ in range(2))
    return g.b.hl.pad(x, low=low, high=high, mode=mode)  # type: ignore[no-any-return]


@step()
def joining(g: Generator) -> Value | None:
    x = g.some()
    shape = shape_of(x)
    if not shape or g.chance(0.3):
        if len(shape) == 4:
            return None
        others = [g.argument(shape) for _ in range(g.integer(0, 2))]
        return g.b.hl.stack(x, *others, axis=g.axis(len(shape) + 1))  # type: ignore[no-any-return]
    axis = g.axis(len(shape))
    others = [g.argument(tuple(g.integer(0, 3) if place == axis % len(shape) else size for place, size in enumerate(shape)))
              for _ in range(g.integer(0, 2))]
    return g.b.hl.concat(*others, x, *([x] if g.chance(0.2) else []), axis=axis)  # type: ignore[no-any-return]


@step()
def splitting(g: Generator) -> Value | None:
    x = g.value(least_rank=1)
    if x is None:
        return None
    axis = g.axis(len(shape_of(x)))
    size = shape_of(x)[axis]
    first = g.integer(0, size)
    parts = g.b.hl.split(x, axis=axis, sizes=[first, size - first])
    g.pool.append(parts[0])
    return parts[1]  # type: ignore[no-any-return]


@step()
def product(g: Generator) -> Value | None:
    """A matrix product of any rank, with transposed operands and broadcast batches."""
    x = g.value(least_rank=1)
    if x is None:
        return None
    shape = shape_of(x)
    transpose_a = len(shape) > 1 and g.chance(0.3)
    inner = shape[-2] if transpose_a else shape[-1]
    if g.chance(0.25):
        return g.tame(g.b.hl.matmul(x, g.argument((inner,)), transpose_a=transpose_a))
    batch = broadcastable(g, shape[:-2]) if len(shape) > 2 else g.shape(1) if g.chance(0.2) and len(shape) < 4 else ()
    transpose_b = g.chance(0.3)
    outer = g.integer(0 if g.chance(0.1) else 1, 5)
    y = g.argument((*batch, *((outer, inner) if transpose_b else (inner, outer))))
    return g.tame(g.b.hl.matmul(x, y, transpose_a=transpose_a, transpose_b=transpose_b))


@step()
def einsum(g: Generator) -> Value | None:
    x = g.value(rank=2)
    if x is None:
        return None
    rows, columns = shape_of(x)
    equation, more = [("ij,jk->ki", (columns, 2)), ("ij,ij->j", (rows, columns)), ("ij,kj->ijk", (3, columns)),
                      ("ij,l->li", (2,)), ("ij,jj->i", (columns, columns))][g.integer(0, 4)]
    return g.tame(g.b.hl.einsum(x, g.argument(more), equation=equation))


@step()
def taking(g: Generator) -> Value | None:
    x = g.value(least_rank=1)
    if x is None or 0 in shape_of(x):
        return None
    shape = shape_of(x)
    rank, axis = len(shape), g.axis(len(shape))
    name = str(g.random.choice(["take", "take_along_axis", "put_along_axis", "gather_nd", "scatter_nd", "add_multi"]))
    mode = str(g.random.choice(["clip", "wrap", "fill"]))
    if name == "take":
        shape_of_indices = g.shape(g.integer(0, 5 - rank))
        return g.b.hl.take(x, g.indices(shape_of_indices, shape[axis], 2), axis=axis, mode=mode)  # type: ignore[no-any-return]
    if name.endswith("along_axis"):
        some = list(shape)
        some[axis] = g.integer(0, 4)
        places = g.indices(tuple(some), shape[axis], 2)
        if name == "take_along_axis":
            return g.b.hl.take_along_axis(x, places, axis=axis, mode=mode)  # type: ignore[no-any-return]
        return g.b.hl.put_along_axis(x, places, g.argument(tuple(some)), axis=axis, mode=mode, kind="add")  # type: ignore[no-any-return]
    if name == "add_multi":
        places = g.indices((3,), shape[axis], 2)
        rest = tuple(size for place, size in enumerate(shape) if place != axis % rank)
        if axis % rank:
            return None
        return g.b.hl.add_multi(x, g.argument((3, *rest)), places, axes=[axis], mode=mode)  # type: ignore[no-any-return]
    depth, count = g.integer(1, rank), g.integer(0, 4)
    places = g.indices((count, depth), min(shape[:depth]), 1)
    if name == "gather_nd":
        return g.b.hl.gather_nd(x, places, mode=mode)  # type: ignore[no-any-return]
    return g.b.hl.scatter_nd(x, places, g.argument((count, *shape[depth:])), kind="add", mode=mode)  # type: ignore[no-any-return]
