"""Attention: rows without keys, keys that are cut off, shapes of masks."""

from __future__ import annotations

import numpy as np
import pytest
from neural_support import evaluate, gradients, parsed, run

NAN, INF = np.nan, np.inf


def same(found: object, expected: object, tolerance: float = 1e-6) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=tolerance, atol=tolerance)


def attend(q: str, k: str, attributes: str, mask: str = "") -> str:
    heads, width = q.split("x")[1], q.split("x")[3]
    extra, more = (", %3", f", tensor<{mask}>") if mask else ("", "")
    return (f"hl.attention %0, %1, %2{extra} {{num_heads = {heads}, head_dim = {width}, {attributes}}} : "
            f"(tensor<{q}xf64>, tensor<{k}xf64>, tensor<{k}xf64>{more}) -> (tensor<{q}xf64>)")


def test_a_fully_masked_row_gives_zero() -> None:  # AD082
    text = attend("1x1x2x2", "1x1x3x2", 'mask_kind = "custom"', "2x3xi1")
    random = np.random.default_rng(0)
    operands = [random.standard_normal((1, 1, size, 2)) for size in (2, 3, 3)]
    mask = np.array([[False] * 3, [True] * 3])
    [out] = evaluate(text, *operands, mask)
    assert (out[0, 0, 0] == 0).all() and (out[0, 0, 1] != 0).all()
    dq, dk, dv = gradients(text, [*operands, mask], [np.ones((1, 1, 2, 2))])
    assert (dq[0, 0, 0] == 0).all()
    for gradient in (dk, dv):
        assert np.isfinite(gradient).all()


LEAKS = {
    "custom keys": ('mask_kind = "custom"', "1x4xi1", np.array([[True, True, False, False]]), [2, 3], slice(None)),
    "custom rows": ('mask_kind = "custom"', "4x4xi1", np.tril(np.ones((4, 4), bool)), [3], slice(0, 3)),
    "causal": ('mask_kind = "causal"', "", None, [3], slice(0, 3)),
    "window": ('mask_kind = "sliding_window", window = 1', "", None, [0], slice(2, 4)),
    "bias": ('mask_kind = "bias"', "4x4xf64", np.where(np.arange(4) < 2, 0.5, -INF) * np.ones((4, 1)), [2, 3], slice(None)),
}


@pytest.mark.parametrize("how", LEAKS)
@pytest.mark.parametrize("poison", [NAN, INF, -INF])
def test_masked_keys_and_values_never_leak(how: str, poison: float) -> None:
    attributes, type, mask, hidden, rows = LEAKS[how]
    text = attend("1x2x4x3", "1x1x4x3", attributes, type)
    random = np.random.default_rng(1)
    q, k, v = random.standard_normal((1, 2, 4, 3)), *(random.standard_normal((1, 1, 4, 3)) for _ in range(2))
    dy = np.zeros((1, 2, 4, 3))
    dy[:, :, rows] = random.standard_normal(dy[:, :, rows].shape)
    rest = [] if mask is None else [mask]

    def results(k: object, v: object) -> list[np.ndarray]:
        module = parsed(text, passes="autodiff{func=f mode=vjp},decompose")
        lowered = run(module, [q, k, v, *rest, dy], "f_vjp")
        plain = run(parsed(text, passes="autodiff{func=f mode=vjp}"), [q, k, v, *rest, dy], "f_vjp")
        if how in ("custom keys", "bias"):  # nothing attends to the hidden keys: the two agree everywhere
            for one, two in zip(lowered, plain):
                same(one, two, 1e-9)
        rest_of_them = lowered[1:4] + plain[1:4] if how in ("custom keys", "bias") else []
        return [lowered[0][:, :, rows], plain[0][:, :, rows], *rest_of_them]

    bad_k, bad_v = k.copy(), v.copy()
    bad_k[:, :, hidden] = bad_v[:, :, hidden] = poison
    for one, two in zip(results(bad_k, bad_v), results(k, v)):
        assert np.isfinite(one).all()
        same(one, two, 1e-12)


def test_nan_in_an_attended_value_stays() -> None:
    text = attend("1x1x2x2", "1x1x2x2", 'mask_kind = "causal"')
    q = k = np.ones((1, 1, 2, 2))
    v = np.array([[1.0, 2.0], [NAN, 3.0]]).reshape(1, 1, 2, 2)
    [out] = evaluate(text, q, k, v)
    same(out[0, 0], [[1, 2], [NAN, 2.5]])


def test_rank_two_masks_of_a_square_are_keys_of_the_batch() -> None:
    """Where B = Q a mask [B, K] and a mask [Q, K] look alike; the first is meant, rank 4 says the other."""
    random = np.random.default_rng(2)
    operands = [random.standard_normal((2, 1, 2, 2)) for _ in range(3)]
    mask = np.array([[True, False], [True, True]])
    [keys] = evaluate(attend("2x1x2x2", "2x1x2x2", 'mask_kind = "custom"', "2x2xi1"), *operands, mask)
    [rows] = evaluate(attend("2x1x2x2", "2x1x2x2", 'mask_kind = "custom"', "1x1x2x2xi1"), *operands, mask[None, None])
    same(keys[0, 0], operands[2][0, 0, [0, 0]])  # batch 0 sees key 0 only
    same(rows[:, 0, 0], operands[2][:, 0, 0])  # query 0 sees key 0 only


def test_large_scores_do_not_overflow() -> None:
    text = attend("1x1x1x1", "1x1x2x1", "scale = 1.0")
    [out] = evaluate(text, np.array([1e4]).reshape(1, 1, 1, 1), np.array([1.0, 2.0]).reshape(1, 1, 2, 1),
                     np.array([5.0, 7.0]).reshape(1, 1, 2, 1))
    same(out, [[[[7.0]]]])
