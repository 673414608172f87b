"""The programs of `gradients.jsonl`, one a case: how its function is built and what is compared with the case's right value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gradopt.dialects.arrays import to_elements
from gradopt.ir.builder import Builder
from gradopt.ir.operation import Region, new_region
from gradopt.ir.types import F16, F32, F64, I1, I64, IntegerType, tensor
from gradopt.ir.values import Value

Array = Any
ELEMENTS = {"float64": F64, "float32": F32, "float16": F16, "int64": I64, "uint8": IntegerType(8, "unsigned"), "bool": I1}


@dataclass(frozen=True)
class Case:
    """`build(builder, *arguments)` makes the function of `arrays`.

    mode "grad": the gradient of a rank-0 result by each float argument, "value": the results, "vjp": the results and the
    gradients for `cotangents`, "hessian": of one argument, "jacobian": of one result by one argument, "error": one that the program
    reports. `pick` makes of the found arrays what the right value is compared with.
    """

    build: Callable[..., Value | Sequence[Value]]
    arrays: Sequence[Any]
    mode: str = "grad"
    cotangents: Sequence[Any] = ()
    pick: Callable[..., Any] = lambda *found: found[0]
    callees: Sequence[tuple[str, Callable[..., Value], int]] = ()


def const(b: Builder, value: Any) -> Value:
    """A constant."""
    array = np.asarray(value)
    return b.hl.constant(value=to_elements(array, tensor(array.shape, ELEMENTS[str(array.dtype)])))


def total(b: Builder, x: Value) -> Value:
    """The sum of all elements."""
    return b.hl.sum(x)


def unary(name: str, x: Any, mode: str = "grad", scale: float = 1.0, **attributes: Any) -> Case:
    """sum(op(scale x)) by x, for an op of one operand."""
    def build(b: Builder, value: Value) -> Value:
        inner = value if scale == 1 else b.hl.multiply(value, const(b, scale))
        return total(b, b.create(f"hl.{name}", [inner], **attributes).results[0])
    return Case(build, [np.asarray(x)], mode)


def binary(name: str, x: Any, y: Any, pick: Callable[..., Any], **attributes: Any) -> Case:
    """sum(op(x, y)) by both."""
    return Case(lambda b, p, q: total(b, b.create(f"hl.{name}", [p, q], **attributes).results[0]),
                [np.asarray(x), np.asarray(y)], pick=pick)


def first(*found: Array) -> Array:
    """The first gradient."""
    return found[0]


def second(*found: Array) -> Array:
    """The second gradient."""
    return found[1]


def both(*found: Array) -> Sequence[Array]:
    """All of them."""
    return found


def zeros(b: Builder, *shape: int) -> Value:
    """Zeros of a shape."""
    return b.hl.zeros(result_types=[tensor(shape, F64)])


def norm_of_rows(b: Builder, x: Value) -> Value:
    n = b.hl.sqrt(b.hl.sum(b.hl.square(x), axes=[1]))
    return total(b, b.hl.where(b.hl.greater(n, const(b, 0.5)), n, const(b, 1.0)))


def overwritten(b: Builder, x: Value) -> Value:
    block = {"begin": [0], "end": [1]}
    y = b.hl.set_slice(zeros(b, 1), b.hl.sqrt(x), **block)
    return total(b, b.hl.set_slice(y, b.hl.subtract(x, const(b, 1.0)), **block))


def nan_variance(b: Builder, x: Value) -> Value:
    kept = b.hl.logical_not(b.hl.isnan(x))
    count = total(b, b.hl.cast(kept, result_types=[x.type]))
    mean = b.hl.divide(total(b, b.hl.where(kept, x, const(b, 0.0))), count)
    offset = b.hl.where(kept, b.hl.subtract(x, mean), const(b, 0.0))
    return b.hl.divide(total(b, b.hl.square(offset)), count)


def maximum_without_self(b: Builder, x: Value, source: Value) -> Value:
    index = const(b, np.array([0, 0]))
    base = b.hl.put_along_axis(x, index, const(b, np.array([-np.inf, -np.inf])), axis=0, kind="set")
    return total(b, b.hl.put_along_axis(base, index, source, axis=0, kind="max"))


def selected(condition: Callable[[Builder, Value], Value], taken: Callable[[Builder, Value], Value],
             other: Callable[[Builder, Value], Value]) -> Callable[[Builder, Value], Value]:
    """sum(where(condition, taken, other))."""
    return lambda b, x: total(b, b.hl.where(condition(b, x), taken(b, x), other(b, x)))


def nothing(b: Builder, x: Value) -> Value:
    return const(b, 0.0)


def is_zero(b: Builder, x: Value) -> Value:
    return b.hl.equal(x, const(b, 0.0))


def with_mask(b: Builder, x: Value, mask: Value) -> Value:
    return b.hl.logsumexp(b.hl.where(mask, x, const(b, -np.inf)))


def masked_vector(b: Builder, x: Value) -> Value:
    low = const(b, np.array([-np.inf]))
    return b.hl.logsumexp(b.hl.concat(low, b.hl.add(low, b.hl.expand_dims(x, axes=[0])), axis=0))


def region(types: Sequence[Any], build: Callable[..., Sequence[Value]]) -> Region:
    """A region that ends in hl.yield."""
    made = new_region(types)
    b = Builder(made.block)
    b.create("hl.yield", list(build(b, *made.block.arguments)))
    return made


def running(combine: str, start: float) -> Callable[[Builder, Value], Value]:
    """All carries of a scan over the rows of xs that combines the carry with each row."""
    def build(b: Builder, xs: Value) -> Value:
        scalar, count = tensor((), F64), xs.type.shape[0]  # type: ignore[attr-defined]

        def body(inner: Builder, carry: Value, row: Value) -> Sequence[Value]:
            new = inner.create(f"hl.{combine}", [carry, row]).results[0]
            return [new, new]
        made = b.create("hl.scan", [const(b, start), xs], regions=[region([scalar, scalar], body)], length=count,
                        num_carry=1, num_xs=1)
        return made.results[1]
    return build


def branch(b: Builder, p: Value, x: Value) -> Value:
    def times(factor: float) -> Region:
        return region([x.type], lambda inner, value: [inner.hl.multiply(value, const(inner, factor))])
    return b.create("hl.if", [p, x], [x.type], regions=[times(2.0), times(3.0)]).results[0]


def recomputed(b: Builder, x: Value) -> Value:
    return total(b, b.hl.checkpoint_end(b.hl.square(b.hl.checkpoint_begin(x))))


def added_twice(b: Builder, x: Value) -> Value:
    size = b.hl.abs(b.hl.strided_slice(x, begin=[0, 2], end=[1, 3]))
    y = zeros(b, 1, 3)
    for _ in range(2):
        column = b.hl.strided_slice(y, begin=[0, 0], end=[1, 1])
        y = b.hl.set_slice(y, b.hl.add(column, size), begin=[0, 0], end=[1, 1])
    return total(b, y)


def unused_slice(b: Builder, x: Value) -> Value:
    total(b, b.hl.strided_slice(x, begin=[0, 0], end=[1, 1]))
    return total(b, b.hl.abs(x))


def through_integers(b: Builder, x: Value) -> Value:
    return total(b, b.hl.cast(b.hl.cast(x, result_types=[x.type.with_element(I64)]), result_types=[x.type]))  # type: ignore[attr-defined]


def of_stack(b: Builder, x: Value) -> Value:
    return b.hl.max(b.hl.stack(x, x, axis=0))


def derivative_of(mode: str, callee: str) -> Callable[[Builder, Value], Value]:
    """x times a derivative of a function taken at x (perturbation confusion)."""
    def build(b: Builder, x: Value) -> Value:
        tangents = [const(b, 1.0)] * (mode == "jvp")
        made = b.create(f"ad.{mode}", [x, x, *tangents], [x.type] * (2 if mode == "jvp" else 1), callee=callee, wrt=[0])
        return b.hl.multiply(x, made.results[-1])
    return build


def weighted(name: str, weights: Any, **attributes: Any) -> Callable[[Builder, Value], Value]:
    """sum(weights op(x))."""
    return lambda b, x: total(b, b.hl.multiply(b.create(f"hl.{name}", [x], **attributes).results[0], const(b, weights)))


def named(**names: int) -> Callable[..., dict[str, Array]]:
    """Gradients by name."""
    return lambda *found: {name: found[position] for name, position in names.items()}


def tiled(b: Builder, x: Value) -> Value:
    return total(b, b.hl.broadcast_to(x, result_types=[tensor((4, 3), F64)]))


ADD: tuple[str, Callable[..., Value], int] = ("add", lambda b, y, x: b.hl.add(x, y), 2)
PARTIAL = np.array([[1.3, 0.4], [-0.7, 0.9]])

CASES: dict[str, Case] = {
    "AD001": Case(norm_of_rows, [np.array([[1.0, 2], [3, 4], [0, 0]])]),
    "AD003": Case(selected(lambda b, x: b.hl.greater(x, const(b, 0.0)), nothing, lambda b, x: b.hl.multiply(x, const(b, np.inf))),
                  [np.array(1.0)]),
    "AD005": Case(selected(lambda b, x: b.hl.greater_equal(x, const(b, 0.0)), lambda b, x: x,
                           lambda b, x: b.hl.sqrt(b.hl.neg(x))), [np.array(1.0)]),
    "AD007": Case(selected(is_zero, nothing, lambda b, x: b.hl.divide(const(b, 1.0), x)), [np.array(0.0)]),
    "AD009": Case(selected(is_zero, nothing, lambda b, x: b.hl.multiply(x, b.hl.sqrt(x))), [np.array([0.0])]),
    "AD011": Case(overwritten, [np.array([0.0])]),
    "AD013": Case(nan_variance, [np.array([1, np.nan, 3])]),
    "AD015": unary("prod", [0.0, 2, 3]),
    "AD017": unary("prod", [[4.0, 0]], axes=[1]),
    "AD019": Case(lambda b, x: b.hl.prod(x), [np.array([2.0, 3, 0, 0])], "hessian"),
    "AD021": unary("prod", [0.0], axes=[0]),
    "AD023": unary("cumprod", [0.0]),
    "AD025": Case(lambda b, x: total(b, b.hl.put_along_axis(const(b, np.ones(2)), const(b, np.array([0, 0, 1])), x, axis=0,
                                                            kind="mul")),
                  [np.array([2.0, 3, 4])]),
    "AD027": unary("norm", np.zeros((3, 3))),
    "AD029": Case(lambda b, x: total(b, b.hl.divide(x, total(b, b.hl.abs(x)))), [np.array([[0, 0, 0, 0, 0.1996]])]),
    "AD031": unary("std", [1.0, 1, 1, 1]),
    "AD033": unary("variance", [[1.0]]),
    "AD035": unary("max", [1.0, 2, 2]),
    "AD037": Case(of_stack, [np.array(3.0)]),
    "AD039": unary("relu6", [0.0, 6]),
    "AD041": unary("relu", 0.0, "hessian"),
    "AD043": Case(lambda b, x, s: total(b, b.hl.put_along_axis(x, const(b, np.array([0, 0, 0])), s, axis=0, kind="mul")),
                  [np.array([1.0]), np.array([2.0, 0, 3])], pick=named(self=0, src=1)),
    "AD045": Case(maximum_without_self, [np.array([5.0, 5]), np.array([1.0, 3])], pick=named(self=0, src=1)),
    "AD047": Case(lambda b, w: total(b, b.hl.embedding(w, const(b, np.array([0, 1, 1, 2])), padding_idx=0)), [np.ones((5, 3))]),
    "AD049": Case(lambda b, x: total(b, b.hl.take(x, const(b, np.array([1, 1, 0])))), [np.array([5.0, 7])]),
    "AD051": Case(lambda b, x, s: total(b, b.hl.set_multi(x, s, *[const(b, np.array([0, 1]))] * 2, axes=[0, 1])),
                  [np.ones((2, 2)), np.ones(2)], pick=named(x=0, src=1)),
    "AD053": Case(lambda b, v: total(b, b.hl.power(b.hl.subtract(v, b.hl.floor(v)), const(b, np.array([0.0])))),
                  [np.array([1.0])]),
    "AD055": binary("power", -2.0, 2.0, first),
    "AD057": binary("power", 0.0, 0.0, first),
    "AD059": binary("power", np.zeros(4), np.array([1.5, 1, 0.5, 0]), first),
    "AD060": binary("power", 0.0, 2.0, second),
    "AD062": unary("log_sigmoid", 0.0),
    "AD064": Case(lambda b, x: b.hl.softplus(x), [np.array(100, np.float32)], "value_and_grad", pick=named(y=0, dy=1)),
    "AD066": unary("sigmoid", -5.0, scale=25.0),
    "AD068": Case(lambda b, x, y, z: total(b, b.hl.add(b.hl.add(b.hl.elu(x), b.hl.celu(y)), b.hl.selu(z))),
                  [np.array(300.0)] * 3, pick=both),
    "AD070": unary("gelu", [0.0, 1, -1]),
    "AD071": unary("gelu", 1.0, approximate="tanh"),
    "AD072": unary("relu", [-1.0, 0, 2]),
    "AD073": unary("abs", [-2.0, 0, 3]),
    "AD074": Case(masked_vector, [np.array(1.0)]),
    "AD076": Case(with_mask, [np.array([0.0, 100]), np.array([True, False])]),
    "AD078": binary("xlogy", 0.0, 2.0, first),
    "AD080": Case(lambda b, p: b.hl.neg(b.hl.xlogy(p, p)), [np.array(0.0)]),
    "AD089": unary("clip", [0.0, 1], min=0.0, max=1.0),
    "AD096": Case(lambda b, x, y, z: b.hl.add(b.hl.fmod(x, y), b.hl.mod(x, z)), [np.array(-19.0), np.array(3.0), np.array(3.0)],
                  pick=lambda *found: found[1:]),
    "AD098": binary("mod", 7.0, 3.0, second),
    "AD100": binary("multiply", [2.0], [[1.0, 2], [3, 4]], first),
    "AD102": Case(tiled, [np.ones(3)]),
    "AD104": binary("add", [[1.0], [2]], [[10.0, 20, 30]], both),
    "AD106": Case(lambda b, c, x, y: total(b, b.hl.where(c, x, y)),
                  [np.array([[True, False], [True, True]]), np.array([1.0, 2]), np.array(3.0)], pick=both),
    "AD107": unary("relu", 0.0),
    "AD108": Case(lambda b, x: total(b, b.hl.multiply(x, b.hl.cast(b.hl.less(x, const(b, 0.0)), result_types=[x.type]))),
                  [np.array([-1.0, 2])]),
    "AD127": Case(lambda b, xs: total(b, running("multiply", 1.0)(b, xs)), [np.array([2.0, 3, 4])]),
    "AD129": Case(running("add", 0.5), [np.arange(5.0)], "jacobian"),
    "AD131": Case(recomputed, [np.array([1.0, 2, 3])]),
    "AD133": Case(lambda b, a: b.hl.det(a), [PARTIAL], "hessian"),
    "AD135": Case(lambda b, x: b.hl.square(b.hl.max(x)), [np.array([1.0, 3, 2])], "hessian"),
    "AD137": Case(derivative_of("jvp", "add"), [np.array(1.0)], callees=[ADD]),
    "AD139": Case(derivative_of("grad", "add"), [np.array(5.0)], callees=[ADD]),
    "AD141": unary("sin", 0.1, "hessian"),
    "AD143": Case(added_twice, [np.array([[1.0, 2, -3]])]),
    "AD145": Case(branch, [np.array(True), np.array(1.0)]),
    "AD147": Case(selected(lambda b, x: b.hl.greater(x, const(b, 0.0)), lambda b, x: x, nothing), [np.array([-1.0, 2])]),
    "AD149": Case(unused_slice, [np.array([[-1.0, 2]])]),
    "AD151": unary("sinc", 0.0, "hessian"),
    "AD153": Case(lambda b, y, x: b.hl.atan2(y, x), [np.array(0.0), np.array(1.0)], pick=lambda dy, dx: [dx, dy]),
    "AD155": Case(lambda b, x, y: b.hl.min(b.hl.atan2(x, y)), [np.array([1.0, -1]), np.array([1.0, 1])]),
    "AD156": Case(weighted("cumsum", np.array([1.0, 2, 3]), exclusive=True), [np.array([4.0, 5, 6])]),
    "AD157": Case(lambda b, x: b.hl.cumsum(x), [np.ones(3)], "vjp", [np.array([np.inf, 1, 1])], second),
    "AD158": Case(lambda b, x: total(b, b.hl.take(x, const(b, np.array([2, 2])), axis=-1)), [np.ones((2, 3))]),
    "AD159": Case(through_integers, [np.array([1.5])]),
    "AD161": unary("max", [2.0, 2]),
    "AD162": Case(lambda b, x, y: b.hl.add(b.hl.maximum(x, y), b.hl.minimum(x, y)), [np.array(1.0), np.array(1.0)], pick=both),
}
