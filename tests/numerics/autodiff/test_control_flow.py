"""Control flow: first and second order against central differences in float64."""

import sys

import numpy as np
import pytest
from gradopt.ir.types import F64, I1, I64, tensor
from gradopt.lowering.autodiff.helpers import full_like, scalar, zeros_like
from gradopt.lowering.autodiff.loops import build_for, build_region, build_scan

VECTOR = tensor([3], F64)


def both_orders(kit, program, arrays, tolerance=1e-5, batch=True):
    """vjp and jvp, both of both, and the batch of each."""
    rng = np.random.default_rng(3)
    reverse, reverse_arrays = kit.check_vjp(program, arrays, rng, tolerance)
    forward, forward_arrays = kit.check_jvp(program, arrays, rng, tolerance)
    for derived, inputs in ((reverse, reverse_arrays), (forward, forward_arrays)):
        seconds = [kit.check_vjp(derived, inputs, rng, tolerance), kit.check_jvp(derived, inputs, rng, tolerance)]
        if batch:
            kit.check_batches(derived, inputs, rng)
            for second, more in seconds:
                kit.check_batch(second, more, [True] * len(more), rng)
    if batch:
        kit.check_batches(program, arrays, rng)


def scan_program(kit, reverse, length=4):
    """carry c, integer carry n, constant w, rows x: c' = sin(c) w + x c, n' = n + 1; y = c' (n as float), z = x."""
    def build(b, c, n, w, x):
        def body(inner, carry, consts, rows):
            new = inner.prim.add(inner.prim.mul(inner.prim.sin(carry[0]), consts[0]), inner.prim.mul(rows[0], carry[0]))
            count = inner.prim.add(carry[1], scalar(inner, 1, I64))
            number = inner.prim.cast(count, result_types=[tensor([], F64)])
            spread = inner.prim.expand(number, axes=[0], result_types=[VECTOR])
            return [new, count], [inner.prim.mul(new, spread), rows[0]]
        scan = build_scan(b, length, [c, n], [w], [x], body, reverse=reverse)
        return [scan.results[0], scan.results[2]]
    return kit.Program.build([VECTOR, tensor([], I64), VECTOR, tensor([length, 3], F64)], build)


def scan_arrays(length=4):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(3), np.asarray(2, np.int64), rng.standard_normal(3), rng.standard_normal((length, 3)) * 0.5]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 4])
def test_scan(kit, reverse, length):
    both_orders(kit, scan_program(kit, reverse, length), scan_arrays(length))


def test_nested_scan(kit):
    def build(b, c, x):
        def inner_body(inner, carry, consts, rows):
            return [inner.prim.tanh(inner.prim.add(inner.prim.mul(carry[0], consts[0]), rows[0]))], []

        def body(inner, carry, consts, rows):
            scan = build_scan(inner, 3, [carry[0]], [rows[0]], [consts[0]], inner_body)
            return [scan.results[0]], [inner.prim.mul(scan.results[0], rows[0])]
        scan = build_scan(b, 3, [c], [x], [x], body)
        return list(scan.results)
    program = kit.Program.build([VECTOR, tensor([3, 3], F64)], build)
    rng = np.random.default_rng(1)
    both_orders(kit, program, [rng.standard_normal(3), rng.standard_normal((3, 3))])


def test_scan_of_select_keeps_masked_lanes_at_zero(kit):
    """c' = where(c > 0, sqrt(c), 0) x: the lanes at 0 get 0, not NaN, through all steps."""
    def build(b, c, x):
        def body(inner, carry, consts, rows):
            positive = inner.prim.cmp(carry[0], zeros_like(inner, carry[0]), predicate="gt")
            root = inner.prim.select(positive, inner.prim.sqrt(carry[0]), zeros_like(inner, carry[0]))
            return [inner.prim.mul(root, rows[0])], []
        return list(build_scan(b, 3, [c], [], [x], body).results)
    program = kit.Program.build([VECTOR, tensor([3, 3], F64)], build)
    arrays = [np.array([0.0, 2.0, 0.0]), np.ones((3, 3))]
    gradients = kit.vjp(program, masked=False).run(*arrays, np.ones(3))[1:]
    assert all(np.isfinite(gradient).all() for gradient in gradients)
    np.testing.assert_allclose(gradients[0], [0, 0.125 * 2 ** -0.875, 0])


def loop_while(b, init, consts, body, bound):
    """prim.while over (i, carries…) with i < consts[-1]."""
    count = len(init)
    types = [value.type for value in (*init, *consts)]

    def test(inner, arguments):
        return [inner.prim.cmp(arguments[0], arguments[-1], predicate="lt")]
    regions = [build_region(types, test, b.location), build_region(types, body, b.location)]
    return b.create("prim.while", [*init, *consts], regions=regions, num_carry=count, max_trip_count=bound).results


def while_program(kit, bound=6, step=1):
    def build(b, c, w, n):
        def body(inner, arguments):
            i, carry, weight, _ = arguments
            return [inner.prim.add(i, scalar(inner, step, I64)), inner.prim.mul(inner.prim.sin(carry), weight)]
        return list(loop_while(b, [scalar(b, 0, I64), c], [w, n], body, bound)[1:])
    return kit.Program.build([VECTOR, VECTOR, tensor([], I64)], build)


@pytest.mark.parametrize("trips", [0, 1, 4, 6])
def test_while(kit, trips):
    rng = np.random.default_rng(trips)
    both_orders(kit, while_program(kit), [rng.standard_normal(3), rng.standard_normal(3) + 1, np.asarray(trips, np.int64)],
                batch=trips <= 4)  # the examples of a batch take up to two trips more


def test_while_without_a_bound_is_forward_only(kit):
    from gradopt.ir.diagnostics import GradoptError

    program = while_program(kit, None, step=2)
    arrays = [np.ones(3), np.full(3, 0.9), np.asarray(5, np.int64)]
    derived, inputs = kit.check_jvp(program, arrays, np.random.default_rng(0))
    kit.check_jvp(derived, inputs, np.random.default_rng(0))
    with pytest.raises(GradoptError, match="max_trip_count"):
        kit.vjp(program)


def test_a_while_that_counts_needs_no_bound(kit):
    """What `for` is lowered to: the buffers are as long as the loop turns out to be."""
    both_orders(kit, while_program(kit, None), [np.ones(3), np.full(3, 0.9), np.asarray(3, np.int64)], batch=False)


@pytest.mark.parametrize("bound", [None, 7])
@pytest.mark.parametrize("trips", [0, 3])
def test_for(kit, bound, trips):
    """c' = c w + float(i) c^2, i = 2 … ; without a bound the buffers are as long as the loop."""
    def build(b, c, w, upper):
        def body(inner, i, carry, consts):
            number = inner.prim.expand(inner.prim.cast(i, result_types=[tensor([], F64)]), axes=[0], result_types=[VECTOR])
            square = inner.prim.mul(carry[0], carry[0])
            scaled = inner.prim.mul(inner.prim.mul(square, number), full_like(inner, square, 0.1))
            return [inner.prim.add(inner.prim.mul(carry[0], consts[0]), scaled)]
        return list(build_for(b, "hl", scalar(b, 2, I64), upper, [c], [w], body, bound))
    program = kit.Program.build([VECTOR, VECTOR, tensor([], I64)], build)
    rng = np.random.default_rng(5)
    arrays = [rng.uniform(0.1, 0.5, 3), rng.uniform(0.1, 0.5, 3), np.asarray(2 + trips, np.int64)]
    reverse, inputs = kit.check_vjp(program, arrays, rng)
    kit.check_vjp(reverse, inputs, rng)


def if_program(kit):
    def build(b, cond, x, y):
        def then(inner, arguments):
            return [inner.prim.mul(arguments[0], inner.prim.sin(arguments[1])), arguments[0]]

        def otherwise(inner, arguments):
            return [inner.prim.exp(arguments[0]), arguments[0]]
        types = [x.type, y.type]
        regions = [build_region(types, branch, b.location) for branch in (then, otherwise)]
        return list(b.create("prim.if", [cond, x, y], regions=regions).results)
    return kit.Program.build([tensor([], I1), VECTOR, VECTOR], build)


@pytest.mark.parametrize("cond", [False, True])
def test_if(kit, cond):
    rng = np.random.default_rng(2)
    both_orders(kit, if_program(kit), [np.asarray(cond), rng.standard_normal(3), rng.standard_normal(3)])


@pytest.mark.parametrize("index", [-3, 0, 1, 2, 9])
def test_switch(kit, index):
    def build(b, number, x):
        def power(exponent):
            def region(inner, arguments):
                value = full_like(inner, arguments[0], 1)
                for _ in range(exponent):
                    value = inner.prim.mul(value, arguments[0])
                return [value]
            return region
        regions = [build_region([x.type], power(exponent), b.location) for exponent in range(4)]
        return list(b.create("prim.switch", [number, x], regions=regions).results)
    program = kit.Program.build([tensor([], I64), VECTOR], build)
    arrays = [np.asarray(index, np.int64), np.array([0.5, -1.5, 2.0])]
    both_orders(kit, program, arrays)
    exponent = min(max(index, 0), 3)
    gradient = kit.vjp(program).run(*arrays, np.ones(3))[1]
    np.testing.assert_allclose(gradient, exponent * arrays[1] ** max(exponent - 1, 0) if exponent else np.zeros(3))


def test_a_branch_that_is_not_taken_contributes_nothing(kit):
    """if(c){sqrt(x)}{1}: at x = 0 the gradient is 0 where the other branch runs."""
    def build(b, cond, x):
        root = build_region([x.type], lambda inner, arguments: [inner.prim.sqrt(arguments[0])], b.location)
        one = build_region([x.type], lambda inner, arguments: [full_like(inner, arguments[0], 1)], b.location)
        return list(b.create("prim.if", [cond, b.prim.sqrt(x)], regions=[root, one]).results)
    program = kit.Program.build([tensor([], I1), VECTOR], build)
    gradient = kit.vjp(program, masked=False).run(np.asarray(False), np.zeros(3), np.ones(3))[1]
    np.testing.assert_array_equal(gradient, np.zeros(3))




def test_deep_nesting_needs_no_recursion():
    """A nest of 150 ifs, deeper than Python's stack would allow if each level took a few frames of it."""
    from gradopt.lowering.interpreter import run_function

    import gradopt

    depth, vector = 150, "tensor<3xf64>"
    lines = [f"func.func @f(%p: tensor<i1>, %x: {vector}) -> {vector} {{"]
    for level in range(depth):
        p, x = (f"%p{level - 1}", f"%x{level - 1}") if level else ("%p", "%x")
        lines.append(f"  %r{level} = prim.if {p}, {p}, {x} ({{\n  ^bb0(%p{level}: tensor<i1>, %x{level}: {vector}):")
    lines.append(f"  %s = prim.sin %x{depth - 1} : {vector}\n  prim.yield %s : ({vector}) -> ()")
    for level in reversed(range(depth)):
        lines.append(f"  }}, {{\n  ^bb0(%p{level}: tensor<i1>, %x{level}: {vector}):\n    prim.yield %x{level} : ({vector}) -> ()\n"
                     f"  }}) : (tensor<i1>, tensor<i1>, {vector}) -> {vector}")
        lines += [f"  prim.yield %r{level} : ({vector}) -> ()"] if level else []
    lines.append(f"  return %r0 : {vector}\n}}")
    module = gradopt.parse("\n".join(lines))
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(220)
    try:
        gradopt.run_passes(module, "autodiff{func=f mode=vjp},autodiff{func=f mode=jvp}")
    finally:
        sys.setrecursionlimit(limit)
    x, v = np.array([0.1, 0.2, 0.3]), np.array([1.0, -1.0, 2.0])
    for name in ("f_vjp", "f_jvp"):
        np.testing.assert_allclose(run_function(module, name, [np.asarray(True), x, v])[1], np.cos(x) * v)
