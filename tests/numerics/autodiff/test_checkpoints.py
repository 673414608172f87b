"""Binomial checkpointing: the schedule is optimal, and the gradient is bitwise the one that keeps everything."""

import gc
from functools import cache

import numpy as np
import pytest
from gradopt.ir.types import F64, I64, tensor
from gradopt.lowering.autodiff.helpers import scalar
from gradopt.lowering.autodiff.loops import build_scan
from gradopt.lowering.autodiff.revolve import INITIAL, NOWHERE, make_schedule, repetitions
from gradopt.lowering.native import driver
from gradopt.lowering.native.program import Constant

import gradopt

VECTOR = tensor([3], F64)


@cache
def fewest_steps(length, states):
    """The least number of forward steps that reverse `length` steps from `states` stored states, the first one included, by
    dynamic programming over the first split (without the last step of each reversal, which the vjp runs itself)."""
    if length <= 1:
        return 0
    if states == 1:
        return length * (length - 1) // 2
    return min(first + fewest_steps(length - first, states - 1) + fewest_steps(first, states) for first in range(1, length))


def replay(length, slots, schedule):
    """Runs a schedule on numbers: the state of a step is its number."""
    store = {INITIAL: 0, **schedule.kept}
    assert len(schedule.kept) <= slots
    state, reversed_steps, peak = None, [], len(store)
    for action in schedule.actions:
        if action.source != NOWHERE:
            state = store[action.source]
        assert state == action.step, f"{action} finds state {state}"
        if action.reverse:
            reversed_steps.append(action.step)
        else:
            state += 1
            if action.target != NOWHERE:
                assert 0 <= action.target < slots
                store[action.target] = state
        peak = max(peak, len(store))
    assert reversed_steps == list(range(length - 1, -1, -1))
    assert peak <= slots + 1


@pytest.mark.parametrize("slots", [0, 1, 2, 3, 5, 12])
@pytest.mark.parametrize("length", [1, 2, 3, 4, 7, 10, 12, 25, 40])
def test_schedule_reverses_every_step_with_the_fewest_forward_steps(length, slots):
    schedule = make_schedule(length, slots)
    replay(length, slots, schedule)
    kept = max(schedule.kept.values(), default=0)
    assert schedule.steps_run_again + kept == fewest_steps(length, slots + 1)


def test_schedule_of_a_long_loop():
    """10,000 steps with 64 checkpoints: Griewank and Walther's t(l, s) = r l - C(s + r, s + 1) counts the last step of each
    reversal too."""
    from math import comb

    length, slots = 10_000, 64
    schedule = make_schedule(length, slots)
    replay(length, slots, schedule)
    states, r = slots + 1, repetitions(length, slots + 1)
    total = schedule.steps_run_again + max(schedule.kept.values())
    assert total + length == (r + 1) * length - comb(states + r, states + 1)


def program(kit, length, checkpoints, reverse):
    def build(b, c, n, w, x):
        def body(inner, carry, consts, rows):
            new = inner.prim.add(inner.prim.mul(inner.prim.sin(carry[0]), consts[0]), inner.prim.mul(rows[0], carry[0]))
            count = inner.prim.add(carry[1], scalar(inner, 1, I64))
            number = inner.prim.expand(inner.prim.cast(count, result_types=[tensor([], F64)]), axes=[0], result_types=[VECTOR])
            return [new, count], [inner.prim.mul(new, number)]
        scan = build_scan(b, length, [c, n], [w], [x], body, reverse=reverse)
        scan.properties = {**scan.properties, "checkpoints": _attribute(checkpoints)}
        return [scan.results[0], scan.results[2]]
    return kit.Program.build([VECTOR, tensor([], I64), VECTOR, tensor([length, 3], F64)], build)


def _attribute(value):
    from gradopt.ir.types import literal

    return literal(value)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length, checkpoints", [(1, 1), (2, 1), (5, 2), (9, 9), (23, 3)])
def test_gradient_is_bitwise_the_one_that_keeps_everything(kit, length, checkpoints, reverse):
    rng = np.random.default_rng(length)
    arrays = [rng.standard_normal(3), np.asarray(2, np.int64), rng.standard_normal(3), rng.standard_normal((length, 3)) * 0.5]
    cotangents = [rng.standard_normal(3), rng.standard_normal((length, 3))]
    plain = kit.vjp(program(kit, length, 0, reverse)).run(*arrays, *cotangents)
    kept = kit.vjp(program(kit, length, checkpoints, reverse)).run(*arrays, *cotangents)
    for a, b in zip(plain, kept):
        np.testing.assert_array_equal(a, b)


def compiled_gradient(checkpoints, length=10_000, size=512):
    mark = f", checkpoints = {checkpoints}" if checkpoints else ""
    vector = f"tensor<{size}xf32>"
    return gradopt.compile(gradopt.parse(f"""
func.func @f(%x: {vector}, %w: {vector}) -> tensor<f32> {{
  %y = hl.scan %x, %w {{length = {length}, num_carry = 1{mark}}} ({{
  ^bb0(%c: {vector}, %v: {vector}):
    %a = hl.sin %c : {vector}
    %b = hl.multiply %a, %v : {vector}
    hl.yield %b : ({vector}) -> ()
  }}) : ({vector}, {vector}) -> {vector}
  %s = hl.sum %y : ({vector}) -> tensor<f32>
  return %s : tensor<f32>
}}"""), "f_grad")


def test_compiled_ten_thousand_steps_with_sixty_four_checkpoints():
    """The planned memory is k states and the working set that the loop has anyway (which the program that keeps everything shows:
    its memory less one state a step), within 10 %; the gradient is bitwise the same."""
    length, slots, size = 10_000, 64, 512
    rng = np.random.default_rng(0)
    x = rng.random(size, np.float32)
    w = (1 + 0.05 * rng.random(size)).astype(np.float32)
    everything, kept = compiled_gradient(0), compiled_gradient(slots)
    for a, b in zip(everything(x, w), kept(x, w)):
        np.testing.assert_array_equal(a, b)
    state = 4 * size
    working = everything.peak_bytes(x, w) - length * state
    assert 0 < working < 16 * state
    assert kept.peak_bytes(x, w) <= 1.1 * (slots * state + working)
    for function in (everything, kept):
        assert 0.97 * really_used(function, x, w) <= function.peak_bytes(x, w) <= really_used(function, x, w)
    steps = len(make_schedule(length, slots).actions)
    constants = sum(len(buffer.data) for buffer in kept.program.buffers if isinstance(buffer, Constant))
    assert constants <= 5 * steps + length + 64  # a flag, a row in two bytes and two slots; the slot of each forward step


def really_used(function, *arrays):
    """The bytes that a call takes from the process, its results among them."""
    driver.set_idle_limit(0)
    driver.set_idle_limit(driver.DEFAULT_IDLE_BYTES)
    before = driver.idle_bytes()
    function(*arrays)
    gc.collect()
    return driver.idle_bytes() - before


V = "tensor<3xf64>"


def several_carries(length, options):
    """Two float carries, an integer one that rows of integers change, a constant, rows of floats, stacked results."""
    rows, numbers = f"tensor<{length}x3xf64>", f"tensor<{length}xi64>"
    return f"""func.func @f(%x: {V}, %y: {V}, %n: tensor<i64>, %w: {V}, %xs: {rows}, %is: {numbers}) -> ({V}, {V}, tensor<i64>, {rows}) {{
  %r:4 = hl.scan %x, %y, %n, %w, %xs, %is {{length = {length}, num_carry = 3, num_xs = 2{options}}} ({{
  ^bb0(%a: {V}, %b: {V}, %i: tensor<i64>, %v: {V}, %t: {V}, %j: tensor<i64>):
    %s = hl.sin %a : {V}
    %p = hl.multiply %s, %v : {V}
    %q = hl.add %p, %t : {V}
    %c = hl.cast %i : (tensor<i64>) -> tensor<f64>
    %g = hl.multiply %b, %c : ({V}, tensor<f64>) -> {V}
    %h = hl.tanh %g : {V}
    %u = hl.multiply %h, %q : {V}
    %k = hl.add %i, %j : tensor<i64>
    %o = hl.multiply %u, %t : {V}
    hl.yield %q, %u, %k, %o : ({V}, {V}, tensor<i64>, {V}) -> ()
  }}) : ({V}, {V}, tensor<i64>, {V}, {rows}, {numbers}) -> ({V}, {V}, tensor<i64>, {rows})
  return %r#0, %r#1, %r#2, %r#3 : {V}, {V}, tensor<i64>, {rows}
}}"""


def scan_in_scan(length, options):
    """Both scans have checkpoints."""
    inner = options if "checkpoints" in options else ""
    return f"""func.func @f(%x: {V}, %xs: tensor<{length}x3xf64>) -> {V} {{
  %r = hl.scan %x, %xs {{length = {length}, num_carry = 1, num_xs = 1{options}}} ({{
  ^bb0(%a: {V}, %t: {V}):
    %z = hl.scan %a, %t {{length = 4, num_carry = 1{inner}}} ({{
    ^bb1(%c: {V}, %d: {V}):
      %s = hl.sin %c : {V}
      %e = hl.multiply %s, %d : {V}
      hl.yield %e : ({V}) -> ()
    }}) : ({V}, {V}) -> {V}
    %y = hl.add %z, %t : {V}
    hl.yield %y : ({V}) -> ()
  }}) : ({V}, tensor<{length}x3xf64>) -> {V}
  return %r : {V}
}}"""


def random_arrays(types, rng):
    return [rng.integers(0, 3, type.shape) if type.element.text == "i64" else rng.uniform(0.5, 1.5, type.shape) for type in types]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("program_of, length, checkpoints", [
    (several_carries, 1, 1), (several_carries, 7, 2), (several_carries, 20, 3), (several_carries, 300, 4), (scan_in_scan, 7, 2)])
def test_compiled_derivatives_are_bitwise_those_that_keep_everything(program_of, length, checkpoints, reverse):
    """vjp and hvp, and the batch of the vjp."""
    mark = ", reverse = true" if reverse else ""
    plain, kept = program_of(length, mark), program_of(length, f"{mark}, checkpoints = {checkpoints}")
    rng = np.random.default_rng(length)
    for mode in ("vjp", "hvp"):
        expected, found = (gradopt.compile(text, f"f_{mode}") for text in (plain, kept))
        arrays = random_arrays(expected.argument_types, rng)
        for a, b in zip(expected(*arrays), found(*arrays), strict=True):
            np.testing.assert_array_equal(a, b)
    module = gradopt.parse(kept)
    gradopt.run_passes(module, "autodiff{func=f mode=vjp},decompose,batch{func=f_vjp size=2}")
    one = gradopt.compile(plain, "f_vjp")
    examples = [random_arrays(one.argument_types, rng) for _ in range(2)]
    batch = gradopt.compile(module, "f_vjp_batch")(*map(np.stack, zip(*examples)))
    for number, example in enumerate(examples):
        for stacked, value in zip(batch, one(*example), strict=True):
            np.testing.assert_allclose(stacked[number], value, rtol=1e-14, atol=0)


def test_second_order(kit):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(3), np.asarray(2, np.int64), rng.standard_normal(3), rng.standard_normal((5, 3)) * 0.5]
    derived, inputs = kit.check_vjp(program(kit, 5, 2, False), arrays, rng)
    kit.check_jvp(derived, inputs, rng)
    kit.check_vjp(derived, inputs, rng)
