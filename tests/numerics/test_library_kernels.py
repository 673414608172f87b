"""Library kernels against the NumPy meaning of their ops: every kind, mode and element type, odd shapes, one and two threads."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from gradopt.dialects.arrays import numpy_dtype
from gradopt.ir.types import BF16, F16, F32, F64, I1, I8, I16, I32, I64, UI8, UI16, UI32, UI64, tensor

sys.path.insert(0, str(Path(__file__).parent))
from library_harness import check, random_array

RNG = np.random.default_rng(7)
FLOATS = (F16, BF16, F32, F64)
INTEGERS = (I8, I16, I32, I64, UI8, UI16, UI32, UI64)
ROUNDING = {"f16": 2e-3, "bf16": 1.6e-2, "f32": 1e-5, "f64": 1e-12}

SCATTER_SHAPES = [((5,), (3,), 0), ((7, 3), (4,), 0), ((3, 7), (2, 3), 1), ((2, 5, 3), (6,), 1), ((4, 0), (3,), 0), ((4, 3), (0,), 0),
                  ((40, 33), (200,), 0), ((3, 500), (2000,), 0), ((20, 8, 3), (9,), 2), ((300,), (1000,), 0), ((64, 5, 4), (3,), 1)]


def scatter_case(shape, count, axis, kind, mode, element=F32, index=I32):
    update = (*shape[:axis], *count, *shape[axis + 1:])
    types = [tensor(shape, element), tensor(count, index), tensor(update, element)]
    x, u = (random_array(RNG, types[place]) for place in (0, 2))
    low = 0 if index.text.startswith("u") else -2 * shape[axis] - 1
    i = RNG.integers(low, 2 * shape[axis] + 2, count).astype(numpy_dtype(index))
    exact = kind not in ("add", "mul") or element not in FLOATS
    check(types, lambda b, x, i, u: b.create("prim.scatter", [x, i, u], axis=axis, kind=kind, mode=mode).results, [x, i, u],
          0 if exact else ROUNDING[element.text])


@pytest.mark.parametrize("mode", ["clip", "wrap", "fill", "nan", "fast"])
@pytest.mark.parametrize("kind", ["set", "add", "max", "min", "mul"])
def test_scatter_modes(kind, mode):
    for shape, count, axis in SCATTER_SHAPES[:6]:
        scatter_case(shape, count, axis, kind, mode)


@pytest.mark.parametrize("shape, count, axis", SCATTER_SHAPES)
def test_scatter_shapes(shape, count, axis):
    scatter_case(shape, count, axis, "add", "fill")
    scatter_case(shape, count, axis, "set", "clip")


@pytest.mark.parametrize("element", [*FLOATS, *INTEGERS, I1])
@pytest.mark.parametrize("kind", ["set", "add", "max", "min", "mul"])
def test_scatter_elements(kind, element):
    scatter_case((9, 5), (30,), 0, kind, "wrap", element)


@pytest.mark.parametrize("index", INTEGERS)
def test_scatter_index_types(index):
    scatter_case((9, 5), (30,), 0, "add", "clip", F32, index)
    scatter_case((9, 5), (30,), 0, "add", "wrap", F32, index)


def test_scatter_huge_unsigned_index():
    x, i, u = np.zeros(5, np.float32), np.array([1 << 63, (1 << 64) - 1, 2], np.uint64), np.ones(3, np.float32)
    types = [tensor((5,), F32), tensor((3,), UI64), tensor((3,), F32)]
    for mode in ("clip", "wrap", "fill"):
        check(types, lambda b, x, i, u: b.create("prim.scatter", [x, i, u], axis=0, kind="add", mode=mode).results, [x, i, u])


def test_scatter_keeps_nan():
    x = np.array([1, np.nan, 3], np.float32)
    types = [tensor((3,), F32), tensor((3,), I64), tensor((3,), F32)]
    for kind in ("max", "min", "add", "mul"):
        check(types, lambda b, x, i, u: b.create("prim.scatter", [x, i, u], axis=0, kind=kind).results,
              [x, np.array([0, 1, 2]), np.array([np.nan, 1, 2], np.float32)], 1e-6)


@pytest.mark.parametrize("kind", ["set", "add", "max"])
def test_scatter_into_fill(kind):
    types = [tensor((500,), I32), tensor((500, 40), F32)]
    i, u = RNG.integers(-5, 320, 500).astype(np.int32), RNG.standard_normal((500, 40)).astype(np.float32)

    def body(b, i, u):
        from gradopt.dialects.arrays import to_elements

        zero = b.prim.constant(value=to_elements(np.float32(0.5), tensor((), F32)))
        x = b.prim.expand(zero, axes=[0, 1], result_types=[tensor((300, 40), F32)])
        return b.create("prim.scatter", [x, i, u], axis=0, kind=kind, mode="fill").results

    check(types, body, [i, u], 1e-5)


@pytest.mark.parametrize("shape, lead, depth", [((5,), (3,), 1), ((4, 5), (7,), 2), ((4, 5, 6), (3, 2), 2), ((4, 5), (3,), 0),
                                                ((4, 5, 3), (300,), 1), ((3, 0), (2,), 1), ((0, 3), (2,), 1), ((90, 70), (900,), 2)])
@pytest.mark.parametrize("mode", ["clip", "wrap", "fill"])
def test_scatter_nd(shape, lead, depth, mode):
    types = [tensor(shape, F32), tensor((*lead, depth), I32), tensor((*lead, *shape[depth:]), F32)]
    x, u = (random_array(RNG, types[place]) for place in (0, 2))
    i = RNG.integers(-8, 8, (*lead, depth)).astype(np.int32)
    for kind in ("set", "add", "mul", "min"):
        check(types, lambda b, x, i, u: b.create("prim.scatter_nd", [x, i, u], kind=kind, mode=mode).results, [x, i, u], 1e-5)


@pytest.mark.parametrize("shape, axis", [((7,), 0), ((5, 6), 1), ((5, 6), 0), ((3, 4, 5), 1), ((0, 4), 0), ((4, 0), 1), ((37, 11), 1),
                                         ((9, 300), 0), ((70000,), 0), ((3, 40000), 1), ((2, 3, 700), 1)])
@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min"])
def test_cumulative(kind, shape, axis):
    type = tensor(shape, F64)
    x = random_array(RNG, type) * 0.1 + (1 if kind == "prod" else 0)
    for reverse in (False, True):
        for exclusive in (False, True):
            check([type], lambda b, x: b.create("prim.cumulative", [x], kind=kind, axis=axis, reverse=reverse,
                                                exclusive=exclusive).results, [x], 1e-9 if kind in ("sum", "prod") else 0)


@pytest.mark.parametrize("element", [*FLOATS, *INTEGERS])
@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min"])
def test_cumulative_elements(kind, element):
    for shape, axis in (((13, 9), 0), ((13, 9), 1)):
        x = random_array(RNG, tensor(shape, element))
        if element in FLOATS:
            x[3, 4] = np.nan
        check([tensor(shape, element)], lambda b, x: b.create("prim.cumulative", [x], kind=kind, axis=axis, exclusive=True).results,
              [x], 2 * ROUNDING.get(element.text, 0))


@pytest.mark.parametrize("shape", [(), (1,), (7,), (0, 3), (20000,), (9, 7, 5), (1 << 15,)])
@pytest.mark.parametrize("element", [UI32, UI64])
def test_random_bits(shape, element):
    for key in ([0, 0], [0xFFFFFFFF, 12345]):
        check([tensor((2,), UI32)], lambda b, k: b.create("prim.random_bits", [k], [tensor(shape, element)]).results,
              [np.array(key, np.uint32)])


@pytest.mark.parametrize("element", [*FLOATS, *INTEGERS, I1])
@pytest.mark.parametrize("descending", [False, True])
def test_sort(descending, element):
    for shape, axis in (((9, 5), 1), ((9, 5), 0), ((3, 130), 1), ((300,), 0), ((130, 2, 3), 0), ((0, 3), 0), ((1, 1), 1), ((4000,), 0)):
        types = [tensor(shape, element), tensor(shape, I32), tensor(shape, F16)]
        key = random_array(RNG, types[0])
        if element in FLOATS:  # ties, both zeros, infinities, NaN
            key = np.round(key.astype(np.float64) * 4).astype(key.dtype)
            key[RNG.random(shape) < 0.1] = np.nan
            key[RNG.random(shape) < 0.1] = -np.inf
            key[RNG.random(shape) < 0.1] = -0.0
        position = np.arange(key.size, dtype=np.int32).reshape(shape)
        check(types, lambda b, k, p, q: b.create("prim.sort", [k, p, q], axis=axis, descending=descending).results,
              [key, position, position.astype(np.float16)])


@pytest.mark.parametrize("element", [F32, F64, I64, UI64])
def test_sort_wide_range(element):
    dtype = numpy_dtype(element)
    key = RNG.integers(0, 256, 3000 * dtype.itemsize).astype(np.uint8).view(dtype)
    check([tensor((3000,), element)], lambda b, k: b.create("prim.sort", [k], axis=0).results, [key])


def test_check_reports_message_values_and_place():
    from gradopt.lowering.native.errors import GradoptRuntimeError
    from gradopt.lowering.plan.checks import explained
    from library_harness import compiled, function_of

    def body(b, x, n, v):
        zero = b.prim.expand(b.prim.cast(n, result_types=[tensor((), F32)]), axes=[0], result_types=[x.type])
        b.prim.check(b.prim.cmp(x, zero, predicate="le"), x, message="too large")
        b.prim.check(b.prim.cmp(n, b.prim.cast(v, result_types=[n.type]), predicate="le"), n, v, message="too many")
        return x

    run = compiled(function_of([tensor((3,), F32), tensor((), I64), tensor((), F32)], body))
    x = np.array([0, 1, 2.5], np.float32)
    np.testing.assert_array_equal(run(x, np.array(5), np.array(7, np.float32)), x)
    for arguments, text in (((x, np.array(1), np.array(7, np.float32)), "too large, 2.5 (at element 2)"),
                            ((x, np.array(5), np.array(2.5, np.float32)), "too many, 5, 2.5")):
        with pytest.raises(GradoptRuntimeError) as caught:
            run(*arguments)
        assert text in str(explained(caught.value, run.program.checks))


@pytest.mark.parametrize("element", FLOATS)
@pytest.mark.parametrize("batch, size", [((), 1), ((), 5), ((3,), 4), ((2, 3), 33), ((), 150), ((0,), 3), ((2,), 0)])
def test_cholesky(element, batch, size):
    type = tensor((*batch, size, size), element)
    root = RNG.standard_normal((*batch, size, size)) / max(size, 1) ** 0.5
    a = (root @ np.swapaxes(root, -1, -2) + 2 * np.eye(size)).astype(numpy_dtype(element))
    a += np.triu(np.full((size, size), 7), 1).astype(a.dtype)  # the upper triangle is not read
    check([type], lambda b, a: b.prim.cholesky(a), [a], 4 * ROUNDING[element.text])


def test_cholesky_of_an_indefinite_matrix_is_nan():
    a = np.stack([np.eye(4), np.diag([1.0, -1, 1, 1]), np.full((4, 4), np.nan), 2 * np.eye(4)]).astype(np.float32)
    check([tensor(a.shape, F32)], lambda b, a: b.prim.cholesky(a), [a], 1e-6)


@pytest.mark.parametrize("element", FLOATS)
@pytest.mark.parametrize("batch, size, columns", [((), 1, 1), ((), 5, 3), ((3,), 4, 2), ((2, 3), 17, 40), ((), 60, 300), ((0,), 3, 2),
                                                  ((2,), 0, 3), ((2,), 3, 0)])
def test_triangular_solve(element, batch, size, columns):
    types = [tensor((*batch, size, size), element), tensor((*batch, size, columns), element)]
    a, y = (random_array(RNG, type) for type in types)
    a = (a / max(size, 1) + 2 * np.eye(size)).astype(a.dtype)
    for lower in (False, True):
        for transpose in (False, True):
            check(types, lambda b, a, y: b.prim.triangular_solve(a, y, lower=lower, transpose=transpose), [a, y],
                  10 * ROUNDING[element.text])


def test_triangular_solve_with_a_zero_on_the_diagonal():
    a, y = np.array([[2, 9, 9], [1, 0, 9], [0, 0, 4]], np.float32), np.array([[2, 0], [5, 0], [8, 4]], np.float32)
    check([tensor((3, 3), F32), tensor((3, 2), F32)], lambda b, a, y: b.prim.triangular_solve(a, y), [a, y], 1e-6)


@pytest.mark.parametrize("kernel, strides, padding, dilation, shape", [
    ([2, 3], [1, 1], [[0, 0], [0, 0]], [1, 1], (2, 3, 6, 7)), ([3, 3], [2, 1], [[1, 0], [2, 1]], [1, 2], (2, 5, 7, 9)),
    ([1, 1], [3, 3], [[0, 0], [0, 0]], [1, 1], (1, 2, 4, 4)), ([2, 2], [2, 2], [[0, 0], [0, 0]], [1, 1], (3, 300, 5, 5)),
    ([2, 2], [1, 1], [[0, 0], [0, 0]], [1, 1], (0, 3, 4, 4))])
@pytest.mark.parametrize("element", [F16, F32, F64, I32])
def test_fold(element, kernel, strides, padding, dilation, shape):
    counts = [(shape[a + 2] + sum(padding[a]) - dilation[a] * (kernel[a] - 1) - 1) // strides[a] + 1 for a in range(2)]
    rows = tensor((shape[0] * counts[0] * counts[1], shape[1] * kernel[0] * kernel[1]), element)
    check([rows], lambda b, y: b.create("prim.fold", [y], [tensor(shape, element)], kernel=kernel, strides=strides, padding=padding,
                                        dilation=dilation).results, [random_array(RNG, rows)], 2 * ROUNDING.get(element.text, 0))
