"""Arrays for the arguments of a function, from what a command line says."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from gradopt.dialects.arrays import numpy_dtype
from gradopt.ir.dialect import near_miss
from gradopt.ir.sizes import SizeExpression
from gradopt.ir.types import TensorType, Type
from gradopt.tools.array_files import is_array_file, read_array
from gradopt.tools.options import UsageError

__all__ = ["make_arguments", "read_sizes", "split_specifications"]

Array = Any
KINDS = ("random", "normal", "zeros", "ones", "iota")
INTEGER = re.compile("[+-]?[0-9]{1,20}")


def split_specifications(texts: Sequence[str], names: Sequence[str]) -> tuple[dict[int, str], str | None]:
    """(argument position -> what it is, what all others are). Raises UsageError for an unknown argument and for one given twice."""
    given: dict[int, str] = {}
    rest: str | None = None
    for text in texts:
        name, equals, specification = text.partition("=")
        if not equals:
            if rest is not None:
                raise UsageError(f"all other arguments are '{rest}' and then '{text}': give --arg without a name once")
            rest = text
            continue
        name = name.strip().removeprefix("%")
        if name in names:
            position = list(names).index(name)
        elif name.isascii() and name.isdigit() and len(name) < 10 and int(name) < len(names):
            position = int(name)
        else:
            raise UsageError(f"there is no argument '{name}'" + (near_miss(name, names) or f"; there are {', '.join(names) or 'none'}"))
        if position in given:
            raise UsageError(f"argument '{names[position]}' is given twice: '{given[position]}' and '{specification}'")
        given[position] = specification
    return given, rest


def read_sizes(texts: Sequence[str]) -> dict[str, int]:
    """`name=number` pairs. Raises UsageError."""
    sizes: dict[str, int] = {}
    for text in texts:
        name, _, number = text.partition("=")
        name = name.strip().removeprefix("%")
        if not name or not re.fullmatch("[0-9]{1,18}", number):
            raise UsageError(f"option '--size' takes NAME=N, found '{text}'")
        if sizes.setdefault(name, int(number)) != int(number):
            raise UsageError(f"size '{name}' is given twice: {sizes[name]} and {number}")
    return sizes


def make_arguments(names: Sequence[str], types: Sequence[Type], texts: Sequence[str], sizes: Mapping[str, int],
                   seed: int) -> list[Array]:
    """One array an argument. Sizes that a type leaves open are taken from `sizes`, then from arrays that were read from files.

    Raises UsageError for what is missing or makes no sense, FileError for a file that cannot be read."""
    _check_size_names(names, types, sizes)
    given, rest = split_specifications(texts, names)
    missing = [name for index, name in enumerate(names) if index not in given and rest is None]
    if missing:
        raise UsageError(f"no value for {', '.join(missing)}: give --arg {missing[0]}=…, or --arg random for all")
    specifications = [given.get(index, rest) or "" for index in range(len(names))]
    known = dict(sizes)
    arrays: list[Array | None] = [read_array(text) if is_array_file(text) else None for text in specifications]
    for array, type in zip(arrays, types):
        if array is not None and isinstance(type, TensorType):
            _learn_sizes(array, type, known)
    made = []
    for index, (name, type, text) in enumerate(zip(names, types, specifications)):
        array = arrays[index]
        made.append(_fill(name, type, text, known, [seed, index]) if array is None else array)
    return made


def _check_size_names(names: Sequence[str], types: Sequence[Type], sizes: Mapping[str, int]) -> None:
    """Raises UsageError for a size that no type leaves open."""
    open_sizes: dict[str, None] = {}
    for name, type in zip(names, types):
        for axis, size in enumerate(type.dims if isinstance(type, TensorType) else ()):
            if isinstance(size, SizeExpression):
                open_sizes.update(dict.fromkeys(sorted(size.names)))
            elif not isinstance(size, int):
                open_sizes[f"{name}.{axis}"] = None
    for size_name in sizes:
        if size_name not in open_sizes:
            raise UsageError(f"option '--size': no argument has an open size '{size_name}'"
                             + (near_miss(size_name, open_sizes) or f"; there are {', '.join(open_sizes) or 'none'}"))


def _learn_sizes(array: Array, type: TensorType, known: dict[str, int]) -> None:
    for size, actual in zip(type.dims, array.shape):
        if isinstance(size, SizeExpression) and len(size.names) == 1 and str(size) in size.names:
            known.setdefault(str(size), int(actual))


def _shape(name: str, type: TensorType, known: Mapping[str, int]) -> tuple[int, ...]:
    shape = []
    for axis, size in enumerate(type.dims):
        value = size.evaluate(known) if isinstance(size, SizeExpression) else size
        if not isinstance(value, int):
            value = known.get(f"{name}.{axis}", value)
        if not isinstance(value, int):
            what = f"--size {name}.{axis}=…"
            if isinstance(size, SizeExpression):
                what = " ".join(f"--size {missing}=…" for missing in sorted(size.names - set(known)))
            raise UsageError(f"size {axis} of argument '{name}' ({type.text}) is open: give {what}")
        shape.append(value)
    return tuple(shape)


def _fill(name: str, type: Type, text: str, known: Mapping[str, int], seed: Sequence[int]) -> Array:
    """An array that is made up. Raises UsageError."""
    import numpy as np

    if not isinstance(type, TensorType):
        raise UsageError(f"argument '{name}' has type {type.text}, expected a tensor")
    shape = _shape(name, type, known)
    try:
        dtype = numpy_dtype(type.element)
    except TypeError as error:
        raise UsageError(f"argument '{name}': {error}") from None
    kind, *limits = text.split(":")
    if limits and kind in KINDS and kind != "random":
        raise UsageError(f"argument '{name}' is '{text}', expected {kind} alone")
    try:
        if kind in ("zeros", "ones"):
            return (np.zeros if kind == "zeros" else np.ones)(shape, dtype)
        if kind == "iota":
            return np.arange(math.prod(shape)).reshape(shape).astype(dtype)
        if kind in ("random", "normal"):
            return _random(name, text, limits, shape, dtype, np.random.default_rng(list(seed)))
        return np.full(shape, _number(name, text, type, dtype), dtype)
    except (ValueError, MemoryError) as error:  # more elements than memory, or than an address has
        raise UsageError(f"argument '{name}' of shape {shape} cannot be made: {error}") from None


def _number(name: str, text: str, type: TensorType, dtype: Any) -> float | int:
    """The number that every element is. Raises UsageError."""
    import numpy as np

    value: float | int
    try:
        value = {"true": 1, "false": 0}[text] if text in ("true", "false") else int(text) if INTEGER.fullmatch(text) else float(text)
    except ValueError:
        hint = near_miss(text, KINDS) if not os.path.exists(text) else " (files end in .npy or .npz)"
        raise UsageError(f"argument '{name}' is '{text}', expected a file, {', '.join(KINDS)} or a number{hint}") from None
    if dtype.kind in "iub":
        low, high = (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
        if not (isinstance(value, int) and low <= value <= high):
            raise UsageError(f"argument '{name}' is '{text}', expected an integer from {low} to {high} for {type.element.text}")
    return value if dtype.kind in "iub" else float(text if text not in ("true", "false") else value)


def _random(name: str, text: str, limits: Sequence[str], shape: tuple[int, ...], dtype: Any, generator: Any) -> Array:
    """Floats: normal, or uniform in [low, high); integers: uniform in [0, 10) or [low, high); i1: either."""
    if not limits and dtype.kind not in "biu":
        return generator.standard_normal(shape).astype(dtype)
    low, high = (0.0, 2.0 if dtype.kind == "b" else 10.0) if not limits else _limits(name, text, limits)
    if dtype.kind in "biu":
        return generator.integers(int(low), max(int(high), int(low) + 1), shape).astype(dtype)
    return generator.uniform(low, high, shape).astype(dtype)


def _limits(name: str, text: str, limits: Sequence[str]) -> tuple[float, float]:
    """LOW and HIGH of `random:LOW:HIGH`. Raises UsageError."""
    try:
        low, high = (float(limit) for limit in limits)
        if low < high and max(abs(low), abs(high)) < 1e18:
            return low, high
    except ValueError:
        pass
    raise UsageError(f"argument '{name}' is '{text}', expected random:LOW:HIGH with LOW < HIGH")
