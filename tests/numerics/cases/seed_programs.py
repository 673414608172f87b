"""What the four systems that gradopt began with get wrong, each with a program that shows the right value here.

A row is (system, mistake) -> the number of a reported case in `gradients.jsonl` that shows it, or a program and its right value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from case_programs import Array, Case, binary, both, const, selected, total, unary, weighted
from gradopt.ir.builder import Builder
from gradopt.ir.types import F16, F64, I64, tensor
from gradopt.ir.values import Value
from neural_case_programs import counted, plain, summed

TVM, TINYGRAD, MEGENGINE, RLX = "TVM Relax", "tinygrad", "MegEngine", "rlx"
NAN = np.nan
EDGE = np.zeros((1, 1, 5, 5))
EDGE[..., 1:4:2, 1:4:2] = 1
LAST_OF_FOUR = np.zeros((1, 1, 80, 80))
LAST_OF_FOUR[..., 1::2, 1::2] = 1
FAR = np.zeros(2**24 + 4, np.uint8)
FAR[2**24 + 1] = 1


def taken(indices: Any, **how: Any) -> Callable[[Builder, Value], Value]:
    """sum(take(x, indices))."""
    return lambda b, x: total(b, b.hl.take(x, const(b, np.array(indices)), **how))


def squared(build: Callable[..., Value]) -> Callable[..., Value]:
    """sum(f(x)**2)."""
    return lambda b, x: total(b, b.hl.square(build(b, x)))


def of_integers(name: str, other: int) -> Callable[[Builder, Value], Value]:
    """sum(x * float(op(int(x), other)))."""
    def build(b: Builder, x: Value) -> Value:
        whole = b.hl.cast(x, result_types=[tensor((), I64)])
        made = b.create(f"hl.{name}", [whole, const(b, np.array(other))]).results[0]
        return total(b, b.hl.multiply(x, b.hl.cast(made, result_types=[x.type])))
    return build


def masked_power(b: Builder, x: Value, e: Value) -> Value:
    zero = const(b, 0.0)
    return total(b, b.hl.where(b.hl.greater(x, zero), b.hl.power(x, e), zero))


def stacked(b: Builder, x: Value) -> Value:
    return total(b, b.hl.multiply(b.hl.stack(x, x, axis=0), const(b, np.array([1.0, 10]))))


def one_result_of_two(b: Builder, x: Value, y: Value) -> Value:
    return b.create("func.call", [x, y], [x.type, x.type], callee="two").results[0]


def two(b: Builder, x: Value, y: Value) -> Any:
    return [b.hl.multiply(x, y), b.hl.add(x, y)]


def set_by_index(b: Builder, x: Value, update: Value) -> Value:
    made = b.hl.set_one_hot(x, const(b, np.array([2, 0])), update, axis=1)
    return total(b, b.hl.multiply(made, const(b, counted(2, 3, start=1))))


def moved_window(b: Builder, x: Value) -> Value:
    return total(b, b.hl.dynamic_slice(x, const(b, np.array(1)), sizes=[2]))


def attend(**how: Any) -> Callable[..., Value]:
    """sum(attention(q, k, v, …)) with heads of width 1."""
    return summed("attention", num_heads=1, head_dim=1, **how)


Q, K, V, BIAS = (np.array(values, float) for values in (0.7, [0.3, -1.2], [2.0, 5.0], [0.4, -0.1]))
FOUR = [Q.reshape(1, 1, 1, 1), K.reshape(1, 1, 2, 1), V.reshape(1, 1, 2, 1)]


def attention_gradients(scale: float = 1.0, softcap: float | None = None, bias: Array = 0.0) -> tuple[Array, Array]:
    """(dq, dbias) of one query of width 1 and two keys."""
    score = scale * Q * K
    capped, slope = (score, 1.0) if softcap is None else (softcap * np.tanh(score / softcap), 1 - np.tanh(score / softcap) ** 2)
    p = np.exp(capped + bias) / np.exp(capped + bias).sum()
    dscore = p * (V - (p * V).sum())
    return (dscore * slope * scale * K).sum().reshape(1, 1, 1, 1), dscore.reshape(1, 2)


def packed_heads() -> tuple[list[Array], Array]:
    """([q, k, v], result) of two heads of width 1 and two positions, stored as [B, S, H * D]."""
    q, k, v = (np.random.default_rng(seed).standard_normal((1, 2, 2)) for seed in range(3))
    p = np.exp(np.einsum("bsh,bth->bhst", q, k))
    return [q, k, v], np.einsum("bhst,bth->bsh", p / p.sum(-1, keepdims=True), v)


PACKED, PACKED_RESULT = packed_heads()
CENTRED = np.array([0, 1, 2, 3], np.float32) + np.float32(1e6)
MISTAKES: dict[tuple[str, str], str | tuple[Case, Any]] = {
    (TVM, "nll_loss with a negative ignore_index"): "AD088",
    (TVM, "conv2d with dilation"): "AD114",
    (TVM, "cumsum ignores exclusive"): "AD156",
    (TVM, "cumsum's adjoint of an infinite cotangent"): "AD157",
    (TVM, "take along a negative axis"): "AD158",
    (TVM, "take at indices of rank 2"): (Case(taken([[0, 2], [2, 2]]), [np.ones(3)]), [1, 0, 3]),
    (TVM, "take with mode wrap"): (Case(taken([5, -1], axis=1, mode="wrap"), [np.ones((2, 3))]), [[0, 0, 2], [0, 0, 2]]),
    (TVM, "take with mode fill"): (Case(taken([5, 0], axis=1, mode="fill"), [np.ones((2, 3))]), [[1, 0, 0], [1, 0, 0]]),
    (TVM, "take with mode clip"): (Case(taken([5, -9], axis=1), [np.ones((2, 3))]), [[1, 0, 1], [1, 0, 1]]),
    (TVM, "where does not sum to its branches"): "AD106",
    (TVM, "power at 0"): "AD059",
    (TVM, "power of a negative base"): "AD055",
    (TVM, "power by its exponent at 0"): "AD060",
    (TVM, "relu at 0"): "AD107",
    (TVM, "abs at 0"): "AD073",
    (TVM, "full drops its value's gradient"): (
        Case(lambda b, v: total(b, b.hl.full(v, result_types=[tensor((2, 3), F64)])), [np.array(4.0)]), 6.0),
    (TVM, "a cast to integers passes the gradient"): "AD159",
    (TVM, "maximum of NaN gives the cotangent twice"): (binary("maximum", [NAN, 1, NAN], [1, NAN, NAN], both), [[1, 0, 0.5], [0, 1, 0.5]]),
    (TVM, "max_pool2d reads beyond its windows"): (
        Case(summed("max_pool2d", pool_size=[2, 2], strides=[2, 2]), [counted(1, 1, 5, 5)]), EDGE),
    (TVM, "only scalar results"): (Case(lambda b, x: b.hl.exp(x), [np.zeros(2)], "vjp", [np.array([1.0, 2])], lambda y, dx: dx), [1, 2]),
    (TVM, "no second order through collapse_sum_to"): (
        Case(squared(lambda b, x: b.hl.add(x, const(b, np.zeros(3)))), [np.array(1.0)], "hessian"), 6.0),
    (TVM, "no second order through take"): (
        Case(squared(lambda b, x: b.hl.take(x, const(b, np.array([0, 0])))), [np.ones(2)], "hessian"), [[4, 0], [0, 0]]),
    (TVM, "no second order through pooling"): (
        Case(squared(plain("avg_pool2d", pool_size=[1, 2])), [np.ones((1, 1, 1, 2))], "hessian"), np.full((1, 1, 1, 2) * 2, 0.5)),
    (TVM, "variance cancels"): (unary("variance", CENTRED), [-0.75, -0.25, 0.25, 0.75]),
    (TINYGRAD, "prod at 0"): "AD015",
    (TINYGRAD, "max counts its ties in the element type"): (
        Case(lambda b, x: b.hl.max(x), [np.zeros(70_000, np.float16)], pick=lambda g: np.unique(g.astype(np.float64))), [240 * 2.0**-24]),
    (TINYGRAD, "power with exponent 0 away from 0"): "AD053",
    (TINYGRAD, "power by its exponent of a masked negative base"): (
        Case(masked_power, [np.array([-2.0, 4.0]), np.array([0.5, 0.5])], pick=both), [[0, 0.25], [0, 2 * np.log(4)]]),
    (TINYGRAD, "no rule for trunc"): (Case(lambda b, x: b.hl.multiply(x, b.hl.trunc(x)), [np.array(2.5)]), 2.0),
    (TINYGRAD, "no rule for xor"): (Case(of_integers("bitwise_xor", 1), [np.array(2.5)]), 3.0),
    (TINYGRAD, "no rule for shl"): (Case(of_integers("shift_left", 2), [np.array(2.5)]), 8.0),
    (TINYGRAD, "no rule for shr"): (Case(of_integers("shift_right", 1), [np.array(2.5)]), 1.0),
    (TINYGRAD, "no rule for mod"): (Case(of_integers("mod", 3), [np.array(5.5)]), 2.0),
    (TINYGRAD, "no rule for idiv"): (Case(of_integers("floor_divide", 2), [np.array(5.5)]), 2.0),
    (TINYGRAD, "no rule for stack"): (Case(stacked, [np.array(2.0)]), 11.0),
    (TINYGRAD, "shrink pads by the wrong amounts"): (
        Case(lambda b, x: total(b, b.hl.strided_slice(x, begin=[1], end=[3])), [np.ones(5)]), [0, 1, 1, 0, 0]),
    (TINYGRAD, "a result of a call that nothing uses"): (
        Case(one_result_of_two, [np.array(3.0), np.array(5.0)], pick=both, callees=[("two", two, 2)]), [5.0, 3.0]),
    (MEGENGINE, "warp_affine of several images"): "AD160",
    (MEGENGINE, "warp_affine of 16-bit images"): (
        Case(lambda b, x, matrix: b.hl.warp_affine(x, matrix, result_types=[tensor((2, 2, 2, 1), F16)]),
             [counted(2, 2, 2, 1).astype(np.float16), np.tile(np.eye(2, 3), (2, 1, 1))], "value"), counted(2, 2, 2, 1)),
    (MEGENGINE, "set_one_hot's gradients"): (
        Case(set_by_index, [np.ones((2, 3)), np.ones((2, 1))], pick=both), [[[1, 2, 0], [0, 5, 6]], [[3], [4]]]),
    (MEGENGINE, "reduce max gives every tie all"): "AD161",
    (MEGENGINE, "reduce product at 0"): "AD017",
    (MEGENGINE, "reduce mean"): (unary("mean", np.ones((2, 4)), axes=[1]), np.full((2, 4), 0.25)),
    (MEGENGINE, "maximum and minimum of a tie both give the first"): "AD162",
    (MEGENGINE, "abs at 0"): "AD073",
    (MEGENGINE, "clip at a bound gives x and the bound"): "AD089",
    (MEGENGINE, "clamp at a bound gives x and the bound"): (
        Case(lambda b, x, low, high: total(b, b.hl.clamp(x, low, high)), [np.array([0.0, 1, 0.5]), np.zeros(3), np.ones(3)],
             pick=lambda dx, dlow, dhigh: [dx, np.maximum(dx + dlow + dhigh, 1)]), [[0, 0, 1], [1, 1, 1]]),
    (MEGENGINE, "mod by its divisor"): "AD096",
    (MEGENGINE, "subtensor at run-time places"): (Case(moved_window, [np.ones(4)]), [0, 1, 1, 0]),
    (MEGENGINE, "an unused consumer of a slice"): "AD149",
    (RLX, "rms_norm"): "AD124",
    (RLX, "gelu"): "AD070",
    (RLX, "gelu by tanh"): "AD071",
    (RLX, "relu as relu(x) / x"): "AD072",
    (RLX, "abs as x / |x|"): "AD073",
    (RLX, "conv2d by its input"): "AD113",
    (RLX, "conv2d by its weight, several images"): "AD112",
    (RLX, "conv2d with a K x 1 kernel, several images"): (
        Case(summed("conv2d"), [counted(2, 1, 3, 1), np.array([2.0, 3]).reshape(1, 1, 2, 1)], pick=both),
        [np.reshape([2.0, 5, 3] * 2, (2, 1, 3, 1)), np.reshape([8.0, 12], (1, 1, 2, 1))]),
    (RLX, "group_norm's shift, several images"): "AD125",
    (RLX, "group_norm's scale, several images"): (
        Case(plain("group_norm", num_groups=1, eps=0.0), [np.array([1.0, 3, 7, 5]).reshape(2, 2, 1, 1), np.ones(2), np.zeros(2)], "vjp",
             [counted(2, 2, 1, 1)], lambda y, dx, dgamma, dbeta: dgamma), [2.0, -2.0]),
    (RLX, "softmax_cross_entropy of the wrong class"): "AD126",
    (RLX, "scan's rows in the wrong order"): "AD127",
    (RLX, "fake_quantize along an axis"): "AD094",
    (RLX, "fake_quantize clips nothing"): "AD091",
    (RLX, "attention without its scale"): (Case(attend(scale=2.0), FOUR), attention_gradients(2.0)[0]),
    (RLX, "attention without its soft cap"): (Case(attend(softcap=0.5), FOUR), attention_gradients(softcap=0.5)[0]),
    (RLX, "attention's bias has no gradient"): (
        Case(attend(mask_kind="bias"), [*FOUR, BIAS.reshape(1, 2)], pick=lambda *found: [found[0], found[3]]),
        list(attention_gradients(bias=BIAS))),
    (RLX, "attention across sequences"): (Case(attend(), FOUR), attention_gradients()[0]),
    (RLX, "attention of rank 3"): (Case(plain("attention", num_heads=2, head_dim=1, layout="BS(HD)"), PACKED, "value"), PACKED_RESULT),
    (RLX, "attention's row without keys"): "AD082",
    (RLX, "layer_norm's scale of a square"): (
        Case(plain("layer_norm", eps=0.0), [np.array([[1.0, 3], [5, 9]]), np.array([10.0, 100])], "value"), [[-10, 100], [-10, 100]]),
    (RLX, "where's zeros have four bytes"): (
        Case(selected(lambda b, x: b.hl.greater(x, const(b, 0.0)), lambda b, x: x, lambda b, x: b.hl.neg(x)), [np.array([1e-300, -1e-300, 2])]),
        [1, -1, 1]),
    (RLX, "max_pool2d of many windows"): (
        Case(summed("max_pool2d", pool_size=[2, 2], strides=[2, 2]), [counted(1, 1, 80, 80)]), LAST_OF_FOUR),
    (RLX, "gather along a later axis"): (
        Case(lambda b, x: total(b, b.hl.multiply(b.hl.take(x, const(b, np.array([2, 2, 0, 1])), axis=1), const(b, counted(2, 4)))),
             [np.ones((2, 3))]), [[2, 3, 1], [6, 7, 9]]),
    (RLX, "indices as f32"): (Case(lambda b, x: b.hl.take(x, const(b, np.array([2**24 + 1])), axis=0), [FAR], "value"), [1]),
    (RLX, "no gradient by what is not used"): (Case(lambda b, x, y: total(b, x), [np.ones(2), np.ones(3)], pick=both), [[1, 1], [0, 0, 0]]),
    (RLX, "cumsum of long rows"): (Case(weighted("cumsum", np.ones(300)), [np.ones(300)]), np.arange(300, 0, -1)),
}  # fmt: skip
