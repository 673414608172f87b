"""Reading the equation of `hl.einsum`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradopt.dialects.constraints import merge_size
from gradopt.ir.declare import InvalidOperation
from gradopt.ir.sizes import Size, provably_different

__all__ = ["Equation", "parse_equation"]


@dataclass(frozen=True)
class Equation:
    """Labels of each operand and of the result, one an axis (those of "..." are 0, 1, … from the last), and the size of each
    label."""

    inputs: tuple[tuple[str, ...], ...]
    output: tuple[str, ...]
    sizes: dict[str, Size]


def parse_equation(equation: str, shapes: Sequence[Sequence[Size]]) -> Equation:
    """The labels of an equation for operands of these sizes. Raises InvalidOperation."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise InvalidOperation(f'attribute \'equation\' is "{equation}", which has {len(terms)} terms for {len(shapes)} operands')
    inputs = tuple(_labels(term, len(shape), equation) for term, shape in zip(terms, shapes))
    sizes: dict[str, Size] = {}
    for labels, shape in zip(inputs, shapes):
        for label, size in zip(labels, shape):
            known = sizes.get(label, 1)
            if known != 1 and size != 1 and provably_different(known, size):
                raise InvalidOperation(f"label '{label}' of \"{equation}\" has size {known} and size {size}")
            sizes[label] = size if known == 1 else known if size == 1 else merge_size(known, size)
    spread = sorted({label for labels in inputs for label in labels if label.isdigit()}, key=int, reverse=True)
    output = _output(right, spread, equation) if arrow else _implicit(left, spread)
    for label in output:
        if label not in sizes or output.count(label) > 1:
            problem = "names twice" if label in sizes else "does not read"
            raise InvalidOperation(f'attribute \'equation\' is "{equation}", whose result has the label \'{label}\', which it {problem}')
    return Equation(inputs, output, sizes)


def _check_letters(text: str, equation: str) -> None:
    for letter in text:
        if not (letter.isascii() and letter.isalpha()):
            raise InvalidOperation(f'attribute \'equation\' is "{equation}", expected letters, "...", "," and "->", found {letter!r}')


def _labels(term: str, rank: int, equation: str) -> tuple[str, ...]:
    """The labels of one operand; the dimensions of "..." are numbered from the last."""
    before, dots, after = term.partition("...")
    _check_letters(before + after, equation)
    free = rank - len(before) - len(after)
    if free < 0 or (free and not dots):
        raise InvalidOperation(f'term "{term}" of "{equation}" does not fit an operand of rank {rank}')
    return (*before, *(str(number) for number in reversed(range(free))), *after)


def _output(term: str, spread: Sequence[str], equation: str) -> tuple[str, ...]:
    before, dots, after = term.partition("...")
    _check_letters(before + after, equation)
    if spread and not dots:
        raise InvalidOperation(f'attribute \'equation\' is "{equation}", whose result lacks the dimensions of "..."')
    return (*before, *(spread if dots else ()), *after)


def _implicit(left: str, spread: Sequence[str]) -> tuple[str, ...]:
    letters = left.replace(".", "").replace(",", "")
    return (*spread, *sorted(letter for letter in set(letters) if letters.count(letter) == 1))
