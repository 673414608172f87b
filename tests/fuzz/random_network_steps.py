"""Steps of random programs: convolutions, pooling, attention, loops and branches."""

from __future__ import annotations

from gradopt.ir.builder import Builder
from gradopt.ir.operation import new_region
from gradopt.ir.types import I1, I64, tensor
from gradopt.ir.values import Value
from random_generator import Generator, scalar, shape_of, step


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
