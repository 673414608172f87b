"""What a caller may pass: conversion to the exact arrays that a program wants, and clear errors where there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy
from gradopt.ir.diagnostics import ArgumentTypeError, ArgumentValueError
from gradopt.lowering.native.elements import numpy_dtype
from gradopt.lowering.native.program import Argument, Computed, Dimension, Program, SizeLike, SizeRef, Static

Array = numpy.ndarray[Any, Any]

_SIZE_MEANINGS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b if b else 0,
    "ceildiv": lambda a, b: -(-a // b) if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "max": max,
    "min": min,
}


def argument_name(program: Program, number: int) -> str:
    """How messages name an argument."""
    name = program.buffers[program.arguments[number]].name
    return f"argument {number} ({name})" if name else f"argument {number}"


def convert(program: Program, arguments: Sequence[Any]) -> list[Array]:
    """Contiguous, aligned, native arrays of the right types and shapes.

    Raises ArgumentTypeError for a wrong count, kind or element type and ArgumentValueError for a wrong shape.
    """
    if len(arguments) != len(program.arguments):
        expected = len(program.arguments)
        raise ArgumentTypeError(f"{program.name} takes {expected} argument{'s' * (expected != 1)}, found {len(arguments)}")
    arrays = [_convert_one(program, number, argument) for number, argument in enumerate(arguments)]
    _check_shapes(program, arrays)
    return arrays


def _convert_one(program: Program, number: int, value: Any) -> Array:
    wanted = program.buffers[program.arguments[number]]
    assert isinstance(wanted, Argument)
    dtype, name = numpy_dtype(wanted.element), argument_name(program, number)
    array = _as_array(program, name, wanted, dtype, value)
    if array.dtype.hasobject and not isinstance(value, numpy.ndarray):  # NumPy wraps what it does not know
        raise ArgumentTypeError(f"{program.name}: {name}: expected an array of {wanted.element}, "
                                f"found {'None' if value is None else type(value).__name__}")
    if wanted.element == "bf16" and array.dtype == numpy.uint16:
        array = array.view(dtype)
    if array.dtype != dtype:
        raise _wrong_type(program, name, wanted, dtype, array)
    if array.ndim != len(wanted.shape):
        raise ArgumentValueError(
            f"{program.name}: {name}: expected shape {_shape_text(program, wanted.shape)} of rank {len(wanted.shape)}, "
            f"found {array.shape} of rank {array.ndim}"
        )
    array = numpy.ascontiguousarray(array).reshape(array.shape)  # a 0-d array would come back with one dimension
    if not array.flags.aligned:
        array = array.copy()
    result: Array = array if array.dtype is dtype else array.view(dtype)
    return result


def _as_array(program: Program, name: str, wanted: Argument, dtype: numpy.dtype[Any], value: Any) -> Array:
    if numpy.ma.is_masked(value):  # the mask would be lost
        raise ArgumentTypeError(f"{program.name}: {name}: expected an array of {wanted.element}, found a masked array; "
                                "fill it first, with x.filled(0)")
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        return numpy.asarray(value)
    if isinstance(value, (bool, int, float)) and not wanted.shape:
        return _python_scalar(program, name, wanted, dtype, value)
    try:
        return numpy.asarray(value)
    except (ValueError, TypeError) as error:
        raise ArgumentTypeError(
            f"{program.name}: {name}: expected an array of {wanted.element}, found {type(value).__name__}: {error}"
        ) from None


def _python_scalar(program: Program, name: str, wanted: Argument, dtype: numpy.dtype[Any], value: bool | int | float) -> Array:
    """A Python number for a rank-0 argument: bool for i1, int where it fits, int or float for a float type."""
    is_bool, is_int = isinstance(value, bool), isinstance(value, int)
    if wanted.element == "i1":
        right = is_bool
    elif wanted.element.startswith(("i", "ui")):
        information = numpy.iinfo(dtype)
        right = is_int and not is_bool and information.min <= value <= information.max
    else:
        right = not is_bool
    if not right:
        raise ArgumentTypeError(
            f"{program.name}: {name}: expected {wanted.element}, found the Python {type(value).__name__} {value!r}"
        )
    if wanted.element == "bf16" and dtype == numpy.uint16:
        raise ArgumentTypeError(f"{program.name}: {name}: expected bf16 as uint16 bits, found the Python number {value!r}")
    return numpy.asarray(value, dtype)


def _wrong_type(program: Program, name: str, wanted: Argument, dtype: numpy.dtype[Any], array: Array) -> ArgumentTypeError:
    if array.dtype.newbyteorder("=") == dtype:
        hint = "not in this machine's byte order; convert it with x.astype(x.dtype.newbyteorder('='))"
        return ArgumentTypeError(f"{program.name}: {name}: expected {wanted.element} ({dtype}), found {array.dtype.str}, {hint}")
    found = f"{program.name}: {name}: expected {wanted.element} ({dtype}), found {array.dtype}"
    if array.dtype.kind in "biuf" and wanted.element != "bf16":
        found += f"; if that loses nothing that matters, convert it with numpy.asarray(x, '{dtype}')"
    return ArgumentTypeError(found)


def _shape_text(program: Program, shape: Sequence[SizeLike]) -> str:
    """A shape in a message: sizes that a caller chooses are `?`."""
    parts = []
    for size in shape:
        entry = program.sizes[size.index] if isinstance(size, SizeRef) else Static(size)
        parts.append(str(entry.value) if isinstance(entry, Static) else "?")
    return "(" + ", ".join(parts) + ("," if len(parts) == 1 else "") + ")"


def size_values(program: Program, arrays: Sequence[Array]) -> list[int]:
    """The size table as a call with these arrays would fill it."""
    values: list[int] = []
    for entry in program.sizes:
        if isinstance(entry, Static):
            values.append(entry.value)
        elif isinstance(entry, Dimension):
            values.append(arrays[entry.argument].shape[entry.axis])
        elif isinstance(entry, Computed):
            values.append(_SIZE_MEANINGS[entry.operation](values[entry.left], values[entry.right]))
        else:
            values.append(entry.initial)
    return values


def _check_shapes(program: Program, arrays: Sequence[Array]) -> None:
    values = size_values(program, arrays)
    for number, array in enumerate(arrays):
        wanted = program.buffers[program.arguments[number]]
        assert isinstance(wanted, Argument)
        for axis, size in enumerate(wanted.shape):
            expected = values[size.index] if isinstance(size, SizeRef) else size
            if array.shape[axis] != expected:
                raise ArgumentValueError(
                    f"{program.name}: {argument_name(program, number)}: expected shape "
                    f"{_shape_text(program, wanted.shape)}{_because(program, size, expected, axis)}, "
                    f"found {array.shape}"
                )


def _because(program: Program, size: SizeLike, expected: int, axis: int) -> str:
    """Where the expected size of an axis comes from, when another argument decides it."""
    if not isinstance(size, SizeRef):
        return ""
    entry = program.sizes[size.index]
    if isinstance(entry, Dimension):
        return f" with {expected} at axis {axis} (axis {entry.axis} of {argument_name(program, entry.argument)})"
    return f" with {expected} at axis {axis}"
