"""Samples of linear algebra."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg as linalg
from tensor_support import Random, Sample, op


def definite(random: Random, shape: tuple[int, ...]) -> Any:
    """Symmetric positive definite matrices."""
    a = random.standard_normal(shape)
    return a @ np.swapaxes(a, -1, -2) + 2 * np.eye(shape[-1])


def regular(random: Random, shape: tuple[int, ...]) -> Any:
    """Well-conditioned matrices."""
    return random.standard_normal(shape) + 3 * np.eye(shape[-1])


def each(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of matrices over leading axes."""

    def reference(*arrays: Any) -> Any:
        batch = arrays[0].shape[:-2]
        rows = [array.reshape(-1, *array.shape[len(batch) :]) if batch else array[None] for array in arrays]
        found = np.array([function(*row) for row in zip(*rows)])
        return found.reshape(batch + found.shape[1:])

    return reference


def product(transpose_a: bool, transpose_b: bool) -> Callable[[Any, Any], Any]:
    """matmul by sums of elementwise products."""

    def reference(a: Any, b: Any) -> Any:
        a = np.swapaxes(a, -1, -2) if transpose_a and a.ndim > 1 else a
        b = np.swapaxes(b, -1, -2) if transpose_b and b.ndim > 1 else b
        left, right = a if a.ndim > 1 else a[None], b if b.ndim > 1 else b[:, None]
        found = (left[..., :, None, :] * np.swapaxes(right, -1, -2)[..., None, :, :]).sum(-1)
        found = found if a.ndim > 1 else found[..., 0, :]
        return (found if b.ndim > 1 else found[..., 0]).astype(a.dtype)

    return reference


def products() -> list[Sample]:
    samples = []
    for a, b in (
        ("Nx4", "4x2"),
        ("2xNx4", "4x2"),
        ("2xNx4", "2x4x5"),
        ("Nx4", "2x4x5"),
        ("4", "4x2"),
        ("Nx4", "4"),
        ("4", "4"),
        ("4", "2x4x3"),
        ("2xNx4", "4"),
        ("2x1x3x4", "5x4x2"),
        ("1xNx4", "2x4x2"),
        ("Nx1", "1x2"),
        ("Nx0", "0x2"),
        ("0x4", "4x2"),
        ("2x1x2x3x4", "3x2x4x2"),
        ("Nx4:i32", "4x2:i32"),
        ("2x3:ui8", "3x2:ui8"),
    ):
        samples.append(op("matmul", a, b, reference=product(False, False)))
    for a, b, ta, tb in (
        ("4xN", "4x2", True, False),
        ("Nx4", "2x4", False, True),
        ("4xN", "2x4", True, True),
        ("2x4xN", "5x2x2x4", True, True),
        ("4", "2x4", True, True),
        ("4xN", "4", True, True),
    ):
        samples.append(op("matmul", a, b, transpose_a=ta, transpose_b=tb, reference=product(ta, tb)))
    for a, b, how, equation in (
        ("2xNx4", "2x4x5", ([0], [0], [2], [1]), "bij,bjk->bik"),
        ("Nx4", "4x2", ([], [], [-1], [0]), "ij,jk->ik"),
        ("N", "4", ([], [], [], []), "i,j->ij"),
        ("Nx4x2", "2x4xN", ([0], [-1], [1, 2], [1, 0]), "bij,jib->b"),
        ("Nx4", "Nx4", ([0, 1], [0, 1], [], []), "ij,ij->ij"),
        ("Nx0", "0", ([], [], [1], [0]), "ij,j->i"),
        ("Nx4:i32", "4:i32", ([], [], [1], [0]), "ij,j->i"),
    ):
        samples.append(
            op(
                "dot_general",
                a,
                b,
                reference=lambda a, b, equation=equation: np.einsum(equation, a, b),
                **dict(zip(("lhs_batch", "rhs_batch", "lhs_contract", "rhs_contract"), how)),
            )
        )
    for equation, *shapes in (
        ("bij,bjk->bik", "2xNx4", "2x4x5"),
        ("ij->ji", "Nx4"),
        ("ij->", "Nx4"),
        ("ii->i", "3x3"),
        ("ii", "3x3"),
        ("i,i", "N", "N"),
        ("i,j->ji", "N", "4"),
        ("ij,jk,kl->il", "Nx4", "4x2", "2x5"),
        ("ij,kj", "Nx4", "2x4"),
        ("bhqd,bhkd->bhqk", "2x1xNx4", "2x1x5x4"),
        ("iij,jk->ik", "3x3x2", "2x2"),
        ("...ij,...jk->...ik", "2xNx4", "4x2"),
        ("i...->...", "2xNx4"),
        ("ij,ij->j", "Nx4", "1x4"),
        ("abc,cd,d->ab", "2xNx4", "4x3", "3"),
        ("i,ij,j->", "N", "Nx4", "4"),
        ("ij,j->i", "0x4", "4"),
        (" i j , j -> i ", "Nx4:i32", "4:i32"),
    ):
        samples.append(op("einsum", *shapes, equation=equation, reference=lambda *x, equation=equation: brute(equation, *x)))
    samples += [
        op(
            "outer",
            a,
            b,
            reference=lambda a, b: np.array([[p * q for q in b.flat] for p in a.flat], a.dtype).reshape(a.size, b.size),
        )
        for a, b in (("N", "4"), ("Nx2", "2x2"), ("", "N"), ("0", "2"), ("N:i8", "2:i8"))
    ]
    return samples


def brute(equation: str, *arrays: Any) -> Any:
    """An Einstein sum by a loop over all labels."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms, spare = left.split(","), "ZYXW"
    width = max([array.ndim - len(term.replace("...", "")) for term, array in zip(terms, arrays) if "..." in term], default=0)
    terms = [term.replace("...", spare[width - (array.ndim - len(term.replace("...", ""))) : width]) for term, array in zip(terms, arrays)]
    letters = "".join(terms)
    output = (
        right.replace("...", spare[:width])
        if arrow
        else spare[:width] * ("..." in left) + "".join(sorted(x for x in set(letters) if letters.count(x) == 1))
    )
    sizes: dict[str, int] = {}
    for term, array in zip(terms, arrays):
        for letter, size in zip(term, array.shape):
            sizes[letter] = max(sizes.get(letter, 1), size) if size else 0
    out = np.zeros([sizes[letter] for letter in output], arrays[0].dtype)
    names = list(sizes)
    for place in np.ndindex(*[sizes[name] for name in names]):
        at = dict(zip(names, place))
        value = np.prod(
            [array[tuple(0 if size == 1 else at[name] for name, size in zip(term, array.shape))] for term, array in zip(terms, arrays)]
        )
        out[tuple(at[name] for name in output)] += value
    return out


def factorisations() -> list[Sample]:
    samples = []
    for shape in ("3x3", "2x3x3", "Nx2x2", "1x1", "0x0", "0x2x2"):
        samples += [
            op(
                "cholesky",
                shape,
                data=definite,
                reference=None if "0" in shape else each(lambda a: linalg.cholesky(a, lower=True)),
            ),
            op("inverse", shape, data=regular, reference=None if "0" in shape else each(linalg.inv)),
            op("det", shape, data=regular, reference=None if "0" in shape else each(linalg.det)),
        ]
    for a, b in (("3x3", "3x2"), ("2x3x3", "2x3x1"), ("Nx2x2", "Nx2x4"), ("3x3", "3x0"), ("0x2x2", "0x2x2")):
        for lower, transpose in ((True, False), (True, True), (False, False), (False, True)):
            samples.append(
                op(
                    "triangular_solve",
                    a,
                    b,
                    lower=lower,
                    transpose=transpose,
                    data={0: regular},
                    reference=None
                    if "0" in a + b
                    else each(
                        lambda a, b, lower=lower, transpose=transpose: linalg.solve_triangular(a, b, lower=lower, trans=int(transpose))
                    ),
                )
            )
        samples.append(op("solve", a, b, data={0: regular}, reference=None if "0" in a + b else each(linalg.solve)))
    samples += [
        op("solve", "3x3", "3", data={0: regular}, reference=linalg.solve),
        op("solve", "Nx2x2", "Nx2", data={0: regular}, reference=each(linalg.solve)),
        op("det", "4x4", reference=linalg.det),
    ]
    return samples


SAMPLES = [*products(), *factorisations()]
