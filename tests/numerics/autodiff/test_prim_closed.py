"""Every `prim` op is closed under differentiation: vjp, jvp, and both of both, against central differences in float64."""

import numpy as np
import pytest
from gradopt.ir.dialect import find_dialect
from gradopt.ir.types import F64, I64, UI32, tensor
from gradopt.lowering.autodiff.registry import find_forward_rule, find_reverse_rule, has_zero_derivative


def uniform(low, high, *shape, seed=0):
    return np.random.default_rng(seed + sum(shape)).uniform(low, high, shape)


def spread(*shape, seed=0):
    """Values that are far apart from each other, so that no comparison flips under a small step."""
    count = int(np.prod(shape))
    return (np.random.default_rng(seed).permutation(count).reshape(shape) - count / 2 + 0.3) * 0.37


def integers(*values):
    return np.array(values, np.int64)


def i64(value):
    return np.asarray(value, np.int64)


UNIT = uniform(0.2, 0.8, 2, 3)
MATRIX = np.array([[2.0, 9.0, 9.0], [0.5, 3.0, 9.0], [-0.4, 0.7, 2.5]])  # what stands above the diagonal is not read
CONV = {"strides": [1], "padding": [[0, 0]], "lhs_dilation": [1], "rhs_dilation": [1]}
CONV2 = {"strides": [2, 1], "padding": [[1, 2], [0, 1]], "lhs_dilation": [1, 2], "rhs_dilation": [2, 1]}
WINDOW = {"kernel": [2, 3], "strides": [2, 1], "padding": [[1, 0], [0, 2]], "dilation": [1, 2]}
NO_BATCH = {"lhs_batch": [], "rhs_batch": []}

# op -> list of (operand arrays, attributes); "result_types" where they do not follow
CASES = {name: [([UNIT], {})] for name in (
    "neg", "abs", "exp", "exp2", "expm1", "log", "log2", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
    "tanh", "asinh", "atanh", "erf", "erfc", "erfinv", "sqrt", "rsqrt", "recip", "sign", "floor", "ceil", "round", "trunc",
    "contiguous", "copy", "barrier")}
CASES |= {name: [([uniform(1.2, 2.2, 2, 3), uniform(0.4, 0.9, 2, 3, seed=1)], {})] for name in (
    "add", "sub", "mul", "mul_zero", "div", "rem", "pow", "max", "min", "atan2")}
CASES |= {
    "acosh": [([UNIT + 1.3], {})],
    "select": [([np.array([[True, False, True], [False, True, False]]), UNIT, UNIT + 1], {})],
    "cast": [([UNIT], {"result_types": [tensor([2, 3], F64)]})],
    "shape_cast": [([UNIT], {"result_types": [tensor([2, 3], F64)]})],
    "reduce": [([spread(3, 4)], {"kind": kind, "axes": axes}) for kind in ("sum", "prod", "max", "min")
               for axes in ([0], [1], [0, 1], [])]
    + [([np.array([[0.0, 2, 0], [0, 3, 4], [1, 5, 2]])], {"kind": "prod", "axes": [1]})],
    "cumulative": [([spread(3, 4)], {"kind": kind, "axis": axis, "reverse": reverse, "exclusive": exclusive})
                   for kind in ("sum", "prod", "max", "min") for axis in (0, 1) for reverse in (False, True)
                   for exclusive in (False, True)]
    + [([np.array([0.0, 2, 0, 3, 0])], {"kind": "prod", "axis": 0})],
    "sort": [([spread(3, 4), UNIT[:1].repeat(4).reshape(3, 4)], {"axis": axis, "descending": descending})
             for axis in (0, 1) for descending in (False, True)],
    "reshape": [([UNIT], {"result_types": [tensor([3, 2], F64)]})],
    "expand": [([UNIT], {"axes": [0, 2], "result_types": [tensor([4, 2, 5, 3], F64)]}),
               ([UNIT[:, :1]], {"axes": [1], "result_types": [tensor([2, 5], F64)]})],
    "permute": [([uniform(0, 1, 2, 3, 4)], {"axes": [2, 0, 1]})],
    "flip": [([UNIT], {"axes": [1]})],
    "pad": [([UNIT, np.asarray(0.7)], {"low": [1, -1], "high": [-1, 2], "interior": [2, 1]}),
            ([UNIT, np.asarray(0.7)], {"low": [0, 2], "high": [1, 0], "interior": [0, 0]})],
    "slice": [([uniform(0, 1, 5, 7)], {"begin": [1, 0], "end": [5, 6], "strides": [2, 4]}),
              ([uniform(0, 1, 5, 7)], {"begin": [2, 3], "end": [2, 7], "strides": [1, 3]})],
    "concat": [([UNIT, UNIT[:, :2], UNIT], {"axis": 1})],
    "dynamic_slice": [([uniform(0, 1, 4, 5), i64(1), i64(9)], {"sizes": [2, 3]})],
    "dynamic_update_slice": [([uniform(0, 1, 4, 5), UNIT, i64(1), i64(9)], {})],
    "gather": [([uniform(0, 1, 3, 4, 2), integers([0, 3, -1], [7, 1, 3])], {"axis": 1, "mode": mode})
               for mode in ("clip", "wrap", "fill", "fast")] + [([UNIT, i64(1)], {"axis": 1})],
    "scatter": [([spread(3, 4, 2), integers(0, 3, -1, 7), spread(3, 4, 2, seed=5) + 0.11],
                 {"axis": 1, "kind": kind, "mode": mode})
                for kind in ("set", "add", "max", "min", "mul") for mode in ("clip", "fill", "wrap")]
    + [([UNIT[0], integers([0, 0], [1, 0]), np.array([[0.0, 2], [0, 0]])], {"axis": 0, "kind": "mul"})],
    "gather_nd": [([uniform(0, 1, 3, 4, 2), integers([[0, 3], [2, 1]], [[9, 1], [0, 3]])], {"mode": mode})
                  for mode in ("clip", "fill")],
    "scatter_nd": [([spread(3, 4, 2), integers([0, 3], [2, 1], [9, 1], [0, 3]), spread(4, 2, seed=5) + 0.11],
                    {"kind": kind, "mode": mode}) for kind in ("set", "add", "max", "min", "mul") for mode in ("clip", "fill")],
    "dot": [([uniform(0, 1, 3, 4), uniform(0, 1, 4, 5)], {**NO_BATCH, "lhs_contract": [1], "rhs_contract": [0]}),
            ([uniform(0, 1, 2, 3, 4, 5), uniform(0, 1, 5, 3, 6, 4)],
             {"lhs_batch": [1], "rhs_batch": [1], "lhs_contract": [2, 3], "rhs_contract": [3, 0]}),
            ([uniform(0, 1, 3), uniform(0, 1, 2)], {**NO_BATCH, "lhs_contract": [], "rhs_contract": []})],
    "conv": [([uniform(-1, 1, 2, 3, 6), uniform(-1, 1, 4, 3, 3)], CONV),
             ([uniform(-1, 1, 2, 4, 6, 5), uniform(-1, 1, 6, 2, 2, 3)], {**CONV2, "groups": 2}),
             ([uniform(-1, 1, 2, 4, 6), uniform(-1, 1, 4, 1, 2)], {**CONV, "strides": [3], "padding": [[-1, -1]], "groups": 4})],
    "unfold": [([uniform(-1, 1, 2, 3, 5, 6)], WINDOW)],
    "fold": [([uniform(-1, 1, 24, 18)], {**WINDOW, "result_types": [tensor([2, 3, 5, 6], F64)]})],
    "cholesky": [([np.stack([MATRIX, MATRIX + np.eye(3)])], {})],
    "triangular_solve": [([np.stack([MATRIX, MATRIX.T]), uniform(-1, 1, 2, 3, 2)], {"lower": lower, "transpose": transpose})
                         for lower in (False, True) for transpose in (False, True)],
}

# what has no derivative: integer results, no float operand, no result
INTEGER_ONLY = {"not", "and", "or", "xor", "shl", "shr", "cmp", "arg_reduce", "iota", "random_bits", "dim", "constant", "check",
                "bitcast", "yield"}
# a derivative that is zero by decree
STOPS = {"stop_gradient"}
# what is tested with control flow
CONTROL = {"scan", "while", "if", "switch", "call"}


def names():
    return [name.removeprefix("prim.") for name in find_dialect("prim").operations]


def test_every_op_has_a_case():
    """An op that is new to the dialect needs a rule and a case here."""
    known = set(CASES) | INTEGER_ONLY | CONTROL | STOPS
    assert set(names()) == known


@pytest.mark.parametrize("name", sorted(set(CASES) | CONTROL))
def test_every_op_has_rules(name):
    full = f"prim.{name}"
    if not has_zero_derivative(full):
        assert find_reverse_rule(full) is not None
        assert find_forward_rule(full) is not None


def flat_cases():
    return [pytest.param(name, arrays, attributes, id=f"{name}-{number}")
            for name, cases in CASES.items() for number, (arrays, attributes) in enumerate(cases)]


@pytest.mark.parametrize("name, arrays, attributes", flat_cases())
def test_first_and_second_order(kit, name, arrays, attributes):
    rng = np.random.default_rng(7)
    program = kit.Program.of_op(f"prim.{name}", arrays, **attributes)
    reverse, reverse_arrays = kit.check_vjp(program, arrays, rng)
    forward, forward_arrays = kit.check_jvp(program, arrays, rng)
    for derived, inputs in ((reverse, reverse_arrays), (forward, forward_arrays)):
        kit.check_vjp(derived, inputs, rng)
        kit.check_jvp(derived, inputs, rng)


@pytest.mark.parametrize("name, arrays, attributes", flat_cases())
def test_batch_of_every_derivative(kit, name, arrays, attributes):
    """batch of the op, of its vjp, of its jvp, and of the second derivatives of both."""
    rng = np.random.default_rng(11)
    program = kit.Program.of_op(f"prim.{name}", arrays, **attributes)
    kit.check_batches(program, arrays, rng)
    first = []
    for derive in (kit.vjp, kit.jvp):
        derived = derive(program)
        inputs = [*arrays, *(rng.standard_normal(argument.type.shape) for argument in derived.block.arguments[len(arrays):])]
        kit.check_batches(derived, inputs, rng)
        first.append((derived, inputs))
    for derived, inputs in first:
        for derive in (kit.vjp, kit.jvp):
            second = derive(derived)
            more = [rng.standard_normal(argument.type.shape) for argument in second.block.arguments[len(inputs):]]
            kit.check_batch(second, [*inputs, *more], [True] * (len(inputs) + len(more)), rng)


BATCHED_ONLY = {
    "not": [[integers(1, 2, 3)]], "and": [[integers(1, 2, 3), integers(3, 5, 9)]], "or": [[integers(1, 2, 3), integers(3, 5, 9)]],
    "xor": [[integers(1, 2, 3), integers(3, 5, 9)]], "shl": [[integers(1, 2, 3), integers(3, 5, 9)]],
    "shr": [[integers(100, 2000, -3), integers(3, 5, 1)]],
    "cmp": [[UNIT, UNIT[::-1].copy(), {"predicate": "lt"}]],
    "arg_reduce": [[UNIT, {"kind": "max", "axis": 1}], [UNIT, {"kind": "min", "axis": 0}]],
    "bitcast": [[UNIT, {"result_types": [tensor([2, 3], I64)]}]],
    "random_bits": [[np.array([3, 4], np.uint32), {"result_types": [tensor([5], UI32)]}]],
    "stop_gradient": [[UNIT]],
}


@pytest.mark.parametrize("name", sorted(BATCHED_ONLY))
def test_batch_of_ops_without_derivative(kit, name):
    for *arrays, last in BATCHED_ONLY[name]:
        attributes = last if isinstance(last, dict) else {}
        arrays = arrays if isinstance(last, dict) else [*arrays, last]
        kit.check_batches(kit.Program.of_op(f"prim.{name}", arrays, **attributes), arrays, np.random.default_rng(2))


def test_every_op_has_a_batching_rule():
    from gradopt.lowering.batch.registry import find_batch_rule

    without = {name for name in names() if find_batch_rule(f"prim.{name}") is None}
    assert without == {"yield", "iota", "constant"}  # they take no operand, or end a region


def test_integer_only_ops_stop_the_derivative(kit):
    """A cast to an integer and back, and a comparison, give zero gradients, not an error."""
    def build(b, x):
        whole = b.prim.cast(x, result_types=[tensor([3], I64)])
        return [b.prim.mul(x, b.prim.cast(whole, result_types=[tensor([3], F64)]))]
    program = kit.Program.build([tensor([3], F64)], build)
    x = np.array([1.5, 2.5, -3.5])
    _, gradient = kit.vjp(program).run(x, np.ones(3))
    np.testing.assert_array_equal(gradient, np.trunc(x))


def test_stop_gradient(kit):
    program = kit.Program.of_op("prim.stop_gradient", [UNIT])
    value, gradient = kit.vjp(program).run(UNIT, np.ones((2, 3)))
    np.testing.assert_array_equal(value, UNIT)
    np.testing.assert_array_equal(gradient, np.zeros((2, 3)))
    np.testing.assert_array_equal(kit.jvp(program).run(UNIT, np.ones((2, 3)))[1], np.zeros((2, 3)))
