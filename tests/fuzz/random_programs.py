"""Random programs of `hl` ops: one function @f of float tensors, made step by step from a seed.

Sizes 0 and 1 and ranks 0 to 4 occur. A program is smooth where no step has a kink or a jump, so that central differences make
sense; values stay moderate, because what could grow goes through tanh.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from gradopt.dialects.func import make_function
from gradopt.ir.attributes import TypeAttr
from gradopt.ir.builder import Builder, make_operation
from gradopt.ir.dialect import operation_class
from gradopt.ir.operation import Operation, new_region
from gradopt.ir.types import I1, I64, FloatType, FunctionType, Type, tensor
from gradopt.ir.values import Value

import gradopt

Step = Callable[["Generator"], "Value | None"]
SIZES = (0, 1, 1, 2, 3, 4, 5, 7)
MOST_ELEMENTS = 400

SMOOTH: list[Step] = []
KINKED: list[Step] = []


def step(smooth: bool = True) -> Callable[[Step], Step]:
    """Registers a step."""

    def register(function: Step) -> Step:
        (SMOOTH if smooth else KINKED).append(function)
        return function

    return register


class Generator:
    """The state of a program in the making: `pool` holds the float values, newest last."""

    def __init__(self, seed: int, element: str, steps: int, smooth: bool) -> None:
        self.random = np.random.default_rng(seed)
        self.element: Type = FloatType(element)
        self.smooth = smooth
        module_class = operation_class("builtin.module")
        assert module_class is not None
        self.module = make_operation(module_class, [], {}, regions=[new_region()])
        self.function = make_function("f", [], [])
        Builder(self.module.regions[0].block).insert(self.function)
        self.block = self.function.regions[0].block
        self.b = Builder(self.block)
        self.pool: list[Value] = [self.argument(self.shape()) for _ in range(self.integer(1, 3))]
        choices = SMOOTH if smooth else SMOOTH + KINKED
        taken = 0
        while taken < steps:
            value = choices[self.integer(0, len(choices) - 1)](self)
            if value is not None:
                self.pool.append(value)
                taken += 1
        self.finish()

    def integer(self, low: int, high: int) -> int:
        """An integer in [low, high]."""
        return int(self.random.integers(low, high + 1))

    def chance(self, probability: float) -> bool:
        """True with that probability."""
        return bool(self.random.random() < probability)

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        """A random shape; sizes 0 are rare, since nothing can go wrong behind them."""
        rank = self.integer(0, 4) if rank is None else rank
        sizes = SIZES if self.chance(0.12) else SIZES[1:]
        while True:
            found = tuple(sizes[self.integer(0, len(sizes) - 1)] for _ in range(rank))
            if int(np.prod(found)) <= MOST_ELEMENTS:
                return found

    def argument(self, shape: tuple[int, ...]) -> Value:
        """A new argument of the float type."""
        return self.block.add_argument(tensor(list(shape), self.element))

    def value(self, rank: int | None = None, least_rank: int = 0) -> Value | None:
        """A value of the pool, a new one more probably, of that rank."""
        for value in reversed(self.pool):
            if len(shape_of(value)) >= least_rank and rank in (None, len(shape_of(value))) and self.chance(0.6):
                return value
        found = [value for value in self.pool if len(shape_of(value)) >= least_rank and rank in (None, len(shape_of(value)))]
        return found[self.integer(0, len(found) - 1)] if found else None

    def some(self) -> Value:
        """A value of any rank."""
        value = self.value()
        assert value is not None
        return value

    def axis(self, rank: int) -> int:
        """An axis, perhaps negative."""
        return self.integer(-rank, rank - 1)

    def axes(self, rank: int) -> list[int] | None:
        """Some axes, or None for all."""
        if self.chance(0.3):
            return None
        return [int(axis) - (rank if self.chance(0.3) else 0) for axis in self.random.permutation(rank)[: self.integer(0, rank)]]

    def tame(self, value: Value) -> Value:
        """The tanh of a value that may be large."""
        return self.b.hl.tanh(value)  # type: ignore[no-any-return]

    def indices(self, shape: tuple[int, ...], size: int, beyond: int = 0) -> Value:
        """A constant tensor of indices in [-beyond, size + beyond)."""
        from gradopt.ir.attributes import DenseElementsAttr

        numbers = self.random.integers(-beyond, max(size + beyond, -beyond + 1), shape)
        type = tensor(list(shape), I64)
        value = DenseElementsAttr(type, np.asarray(numbers, np.int64).tobytes())
        return self.b.hl.constant(value=value, result_types=[type])  # type: ignore[no-any-return]

    def finish(self) -> None:
        """Returns the last value and perhaps another; gives the function its type."""
        returned = [self.pool[-1]]
        if self.chance(0.4):
            returned.append(self.pool[self.integer(0, len(self.pool) - 1)])
        self.b.create("func.return", returned)
        signature = FunctionType(tuple(each.type for each in self.block.arguments), tuple(each.type for each in returned))
        self.function.properties = {**self.function.properties, "function_type": TypeAttr(signature)}
        gradopt.verify(self.module)


def program(seed: int, element: str = "f64", *, steps: int = 6, smooth: bool = False) -> Operation:
    """A module with a random function @f."""
    return Generator(seed, element, steps, smooth).module


def shape_of(value: Value) -> tuple[int, ...]:
    """The (static) shape of a value."""
    return value.type.shape  # type: ignore[attr-defined,no-any-return]


def broadcastable(g: Generator, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts together with another."""
    kept = list(shape[g.integer(0, len(shape)):])
    return tuple(1 if g.chance(0.3) else size for size in kept)


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


def scalar(g: Generator, number: float) -> Value:
    from gradopt.dialects.arrays import numpy_dtype
    from gradopt.ir.attributes import DenseElementsAttr

    type = tensor([], g.element)
    value = DenseElementsAttr(type, np.asarray(number, numpy_dtype(g.element)).tobytes())
    return g.b.hl.constant(value=value, result_types=[type])  # type: ignore[no-any-return]


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


def image(g: Generator) -> Value | None:
    """A value of rank 4, by adding axes where the pool has none; no size 0."""
    x = g.some()
    missing = 4 - len(shape_of(x))
    if 0 in shape_of(x):
        return None
    return g.b.hl.expand_dims(x, axes=list(range(missing))) if missing else x


def windows(g: Generator, size: int, dilation: int) -> tuple[int, list[int]]:
    """(kernel size, padding) of at least one window."""
    kernel = g.integer(1, 3)
    reach = dilation * (kernel - 1) + 1
    before = g.integer(0, 2)
    return kernel, [before, max(g.integer(0, 2), reach - size - before)]


@step()
def convolution(g: Generator) -> Value | None:
    x = image(g)
    if x is None:
        return None
    layout = "NHWC" if g.chance(0.4) else "NCHW"
    shape = shape_of(x)
    channels, spatial = (shape[3], shape[1:3]) if layout == "NHWC" else (shape[1], shape[2:])
    dilation = [g.integer(1, 2) for _ in spatial]
    kernel, pads = zip(*(windows(g, size, each) for size, each in zip(spatial, dilation)))
    groups = int(g.random.choice([each for each in (1, channels) if channels % each == 0]))
    weight = g.argument((groups * g.integer(1, 2), channels // groups, *kernel))
    return g.tame(g.b.hl.conv2d(x, weight, strides=[g.integer(1, 2) for _ in spatial], padding=list(pads), dilation=dilation,
                                groups=groups, layout=layout))


def pool(g: Generator, kind: str) -> Value | None:
    x = image(g)
    if x is None:
        return None
    layout = "NHWC" if g.chance(0.4) else "NCHW"
    spatial = shape_of(x)[1:3] if layout == "NHWC" else shape_of(x)[2:]
    dilation = [g.integer(1, 2) for _ in spatial]
    kernel, pads = zip(*(windows(g, size, each) for size, each in zip(spatial, dilation)))
    if any(before > 1 or after > 1 for before, after in pads):  # a window without elements is -inf
        return None
    return getattr(g.b.hl, kind)(x, pool_size=list(kernel), strides=[g.integer(1, 2) for _ in spatial], padding=list(pads),  # type: ignore[no-any-return]
                                 dilation=dilation, ceil_mode=g.chance(0.3), count_include_pad=g.chance(0.3), layout=layout)


@step()
def average(g: Generator) -> Value | None:
    return pool(g, "avg_pool2d")


@step(smooth=False)
def largest(g: Generator) -> Value | None:
    value = pool(g, "max_pool2d")
    return None if value is None else g.tame(value)


@step()
def attention(g: Generator) -> Value | None:
    x = image(g)
    if x is None:
        return None
    batch, heads, _queries, depth = shape_of(x)
    keys = g.integer(1, 5)
    key_heads = heads if g.chance(0.5) else 1
    k, v = (g.argument((batch, key_heads, keys, depth)) for _ in range(2))
    kind = str(g.random.choice(["none", "causal", "sliding_window"]))
    more: dict[str, float] = {"window": g.integer(0, 3)} if kind == "sliding_window" else {}
    if g.chance(0.3):
        more["softcap"] = 2.0
    return g.b.hl.attention(x, k, v, num_heads=heads, head_dim=depth, mask_kind=kind, **more)  # type: ignore[no-any-return]


@step()
def scan(g: Generator) -> Value | None:
    """carry' = tanh(carry * w + x_t), y_t = sin(carry')."""
    xs = g.value(least_rank=1)
    if xs is None:
        return None
    length, row = shape_of(xs)[0], shape_of(xs)[1:]
    type = tensor(list(row), g.element)
    region = new_region()
    block = region.block
    carry, weight, x = (block.add_argument(type) for _ in range(3))
    b = Builder(block)
    new = b.hl.tanh(b.hl.add(b.hl.multiply(carry, weight), x))
    b.create("hl.yield", [new, b.hl.sin(new)])
    outputs = g.b.hl.scan(g.argument(row), g.argument(row), xs, length=length, num_carry=1, num_xs=1, reverse=g.chance(0.4),
                          checkpoints=2 if g.chance(0.2) and length > 1 else 0, regions=[region],
                          result_types=[type, tensor([length, *row], g.element)])
    g.pool.append(outputs[0])
    return outputs[1]  # type: ignore[no-any-return]


@step()
def branch(g: Generator) -> Value | None:
    """Either sine or cosine of a value, by a constant argument of type i1 that the program compares."""
    x = g.some()
    regions = []
    for name in ("sin", "cos"):
        region = new_region()
        argument = region.block.add_argument(x.type)
        b = Builder(region.block)
        b.create("hl.yield", [getattr(b.hl, name)(argument)])
        regions.append(region)
    condition = g.b.hl.less(g.b.hl.stop_gradient(g.argument(())), scalar(g, 0.0))
    assert condition.type.element is I1
    return g.b.hl.if_(condition, x, result_types=[x.type], regions=regions)  # type: ignore[no-any-return]


@step()
def loop(g: Generator) -> Value | None:
    """Some steps of a counted loop."""
    x = g.some()
    region = new_region()
    block = region.block
    index, carry = block.add_argument(tensor([], I64)), block.add_argument(x.type)
    b = Builder(block)
    moved = b.hl.add(carry, b.hl.cast(index, result_types=[tensor([], g.element)]))
    b.create("hl.yield", [b.hl.sin(moved)])
    lower, upper = g.indices((), 2), g.indices((), 4)
    return g.b.hl.for_(lower, upper, x, num_carry=1, regions=[region], result_types=[x.type])  # type: ignore[no-any-return]
