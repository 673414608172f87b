"""Binomial checkpointing: the schedule is optimal, and the gradient is bitwise the one that keeps everything."""

from functools import cache

import numpy as np
import pytest
from gradopt.ir.types import F64, I64, tensor
from gradopt.lowering.autodiff.helpers import scalar
from gradopt.lowering.autodiff.loops import build_scan
from gradopt.lowering.autodiff.revolve import INITIAL, NOWHERE, make_schedule, repetitions

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
    import gradopt

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


def test_second_order(kit):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(3), np.asarray(2, np.int64), rng.standard_normal(3), rng.standard_normal((5, 3)) * 0.5]
    derived, inputs = kit.check_vjp(program(kit, 5, 2, False), arrays, rng)
    kit.check_jvp(derived, inputs, rng)
    kit.check_vjp(derived, inputs, rng)
