"""Derivatives that a function brings along: the attributes `ad.vjp = @h` and `ad.jvp = @h`, with signature checks."""

from __future__ import annotations

from gradopt.ir.attributes import SymbolRefAttr
from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.operation import Operation
from gradopt.ir.symbols import symbol_name
from gradopt.ir.types import FunctionType, Type, compatible
from gradopt.lowering.autodiff.context import is_float_tensor
from gradopt.lowering.autodiff.state import State

__all__ = ["custom_derivative", "function_type"]


def function_type(function: Operation) -> FunctionType:
    """The type of a function."""
    found = function.properties["function_type"].type  # type: ignore[attr-defined]
    assert isinstance(found, FunctionType)
    return found


def custom_derivative(state: State, function: Operation, kind: str) -> str | None:
    """The name of the function's own `ad.vjp` or `ad.jvp` (`kind`), checked; None if it has none. Raises GradoptError."""
    reference = function.attributes.get(f"ad.{kind}")
    if reference is None:
        return None
    name = symbol_name(function)
    if not isinstance(reference, SymbolRefAttr):
        raise GradoptError.at(function.location, f"attribute 'ad.{kind}' of '@{name}' is {reference.text}, expected a symbol")
    found = state.function(reference.root)
    if found is None or "function_type" not in found.properties:
        raise GradoptError.at(function.location, f"attribute 'ad.{kind}' of '@{name}' names '@{reference.root}', which is not a "
                              "function")
    type = function_type(function)
    results = [result for result in type.results if is_float_tensor(result)]
    inputs = [argument for argument in type.inputs if is_float_tensor(argument)]
    if kind == "vjp":
        expected: tuple[list[Type], list[Type]] = ([*type.inputs, *results], inputs)
    else:
        expected = ([*type.inputs, *inputs], [*type.results, *results])
    actual = function_type(found)
    if not _agree(actual.inputs, expected[0]) or not _agree(actual.results, expected[1]):
        wanted = FunctionType(tuple(expected[0]), tuple(expected[1]))
        raise GradoptError.at(found.location, f"'@{reference.root}' is the ad.{kind} of '@{name}' and has type {actual.text}, "
                              f"expected {wanted.text}", [(function.location, f"'@{name}' is defined here")])
    return reference.root


def _agree(found: tuple[Type, ...], expected: list[Type]) -> bool:
    return len(found) == len(expected) and all(compatible(a, b) for a, b in zip(found, expected))
