"""`gradopt-run --check-grad`: reverse and forward derivatives against central differences, in float64.

The results are weighted with random cotangents c to one number s(x) = sum of c * f(x). For an argument with few elements every
element of the gradient is compared with (s(x + h e) - s(x - h e)) / 2h, for a larger one the gradient's product with random
directions. The difference quotient is extrapolated from h and h/2 (Richardson), which leaves an error of order h**4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gradopt.dialects.constraints import is_float_tensor
from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.operation import Operation
from gradopt.lowering.entry import MODES
from gradopt.tools.double import to_double

__all__ = ["Comparison", "base_function", "check_gradient"]

Array = Any
FEW = 64  # elements of an argument that are compared one by one
DIRECTIONS = 8
STEP = 1e-4
TOLERANCE = 1e-6


class Comparison(NamedTuple):
    """What came out for one argument."""

    argument: str
    what: str  # "reverse" or "forward"
    compared: int
    error: float  # the largest difference, relative to the largest derivative
    place: str  # where that is

    @property
    def agrees(self) -> bool:
        """True if the derivatives are equal up to rounding."""
        return self.error <= TOLERANCE


def base_function(entry: str, functions: Sequence[str]) -> str:
    """The function that `entry` is or is a derivative of."""
    for mode in MODES:
        name = entry.removesuffix(f"_{mode}")
        if name != entry and name in functions:
            return name
    return entry


def check_gradient(module: Operation, name: str, arguments: Sequence[Array], wrt: Sequence[int | str] | None,
                   seed: int = 0) -> list[Comparison]:
    """Compares the derivatives of function `name` at `arguments`.

    Raises GradoptError for what cannot be differentiated or compiled."""
    import numpy as np

    from gradopt import compile

    double = to_double(module)
    primal = compile(double, name)
    names = primal.argument_names
    chosen = [index for index, type in enumerate(primal.argument_types)
              if (is_float_tensor(type) if wrt is None else index in wrt or names[index] in wrt)]
    if not chosen:
        raise GradoptError.at(module.location, f"function '@{name}' has no float argument to differentiate with respect to")
    values = [np.asarray(value, np.float64) if is_float_tensor(type) else np.asarray(value)
              for value, type in zip(arguments, primal.argument_types)]
    generator = np.random.default_rng([seed, 1])
    floats = [index for index, type in enumerate(primal.result_types) if is_float_tensor(type)]

    def call(function: Callable[..., Any], *given: Array) -> list[Array]:
        results = function(*given)
        return list(results) if isinstance(results, tuple) else [results]

    first = call(primal, *values)
    cotangents = [generator.standard_normal(first[index].shape) for index in floats]

    def weighted(moved: Sequence[Array]) -> float:
        results = call(primal, *moved)
        return float(sum(np.vdot(c, results[index]) for c, index in zip(cotangents, floats)))

    gradients = call(compile(double, f"{name}_vjp", wrt=chosen), *values, *cotangents)[len(first):]
    reverse = [_compare(names[index], gradient, values, index, weighted, generator) for index, gradient in zip(chosen, gradients)]
    pushforward = compile(double, f"{name}_jvp", wrt=chosen)
    forward = [_compare_forward(names[index], number, index, chosen, values, cotangents, gradients[number], len(first),
                                lambda *given: call(pushforward, *given), generator) for number, index in enumerate(chosen)]
    return reverse + forward


def _quotient(weighted: Callable[[Sequence[Array]], float], values: Sequence[Array], index: int, direction: Array) -> float:
    """The derivative of `weighted` along a direction of one argument: two central differences, extrapolated."""
    import numpy as np

    size = STEP * max(1.0, float(np.max(np.abs(values[index]), initial=0.0)))

    def difference(step: float) -> float:
        moved = list(values)
        moved[index] = values[index] + step * direction
        above = weighted(moved)
        moved[index] = values[index] - step * direction
        return (above - weighted(moved)) / (2 * step)

    return (4 * difference(size / 2) - difference(size)) / 3


def _directions(shape: tuple[int, ...], generator: Any) -> list[tuple[str, Array]]:
    """Unit vectors for few elements, random directions for many."""
    import numpy as np

    count = int(np.prod(shape))
    if count <= FEW:
        units = np.eye(count).reshape(count, *shape)
        return [(str(list(map(int, np.unravel_index(place, shape)))) if shape else "", units[place]) for place in range(count)]
    return [(f"direction {number}", generator.standard_normal(shape) / np.sqrt(count)) for number in range(DIRECTIONS)]


def _compare(name: str, gradient: Array, values: Sequence[Array], index: int, weighted: Callable[[Sequence[Array]], float],
             generator: Any) -> Comparison:
    import numpy as np

    pairs = [(place, float(np.vdot(gradient, direction)), _quotient(weighted, values, index, direction))
             for place, direction in _directions(values[index].shape, generator)]
    return _worst(name, "reverse", pairs)


def _compare_forward(name: str, number: int, index: int, chosen: Sequence[int], values: Sequence[Array],
                     cotangents: Sequence[Array], gradient: Array, results: int, pushforward: Callable[..., list[Array]],
                     generator: Any) -> Comparison:
    """<c, J v> from the forward derivative against <J^T c, v> from the reverse one."""
    import numpy as np

    pairs = []
    for place, direction in _directions(values[index].shape, generator):
        tangents = [np.zeros_like(values[other]) for other in chosen]
        tangents[number] = direction
        pushed = pushforward(*values, *tangents)[results:]
        pairs.append((place, float(sum(np.vdot(c, t) for c, t in zip(cotangents, pushed))), float(np.vdot(gradient, direction))))
    return _worst(name, "forward", pairs)


def _worst(name: str, what: str, pairs: Sequence[tuple[str, float, float]]) -> Comparison:
    """The largest difference, relative to the largest derivative (at least 1e-3, so that zeros compare); NaN never agrees."""
    scale = max([1e-3, *(abs(expected) for _, _, expected in pairs)])
    errors = [(abs(found - expected) / scale, place) for place, found, expected in pairs]
    bad = [(float("inf"), place) for error, place in errors if error != error]
    error, place = max(bad or errors, default=(0.0, ""))
    return Comparison(name, what, len(pairs), error, place)
