"""Arrays for the arguments of a function, from what a command line says."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from gradopt.dialects.arrays import numpy_dtype
from gradopt.ir.dialect import near_miss
from gradopt.ir.sizes import SizeExpression
from gradopt.ir.types import TensorType, Type
from gradopt.tools.files import FileError
from gradopt.tools.options import UsageError

__all__ = ["make_arguments", "read_sizes", "split_specifications"]

Array = Any
KINDS = ("random", "normal", "zeros", "ones", "iota")


def split_specifications(texts: Sequence[str], names: Sequence[str]) -> tuple[dict[int, str], str | None]:
    """(argument position -> what it is, what all others are). Raises UsageError for an unknown argument."""
    given: dict[int, str] = {}
    rest: str | None = None
    for text in texts:
        name, equals, specification = text.partition("=")
        if not equals:
            rest = text
            continue
        name = name.strip().lstrip("%")
        if name in names:
            given[list(names).index(name)] = specification
        elif name.isdigit() and int(name) < len(names):
            given[int(name)] = specification
        else:
            raise UsageError(f"there is no argument '{name}'{near_miss(name, names)}; there are {', '.join(names) or 'none'}")
    return given, rest


def read_sizes(texts: Sequence[str]) -> dict[str, int]:
    """`name=number` pairs. Raises UsageError."""
    sizes = {}
    for text in texts:
        name, _, number = text.partition("=")
        if not name or not number.isdigit():
            raise UsageError(f"option '--size' takes NAME=N, found '{text}'")
        sizes[name] = int(number)
    return sizes


def make_arguments(names: Sequence[str], types: Sequence[Type], texts: Sequence[str], sizes: Mapping[str, int],
                   seed: int) -> list[Array]:
    """One array an argument. Sizes that a type leaves open are taken from `sizes`, then from arrays that were read from files.

    Raises UsageError for what is missing or makes no sense, FileError for a file that cannot be read."""
    given, rest = split_specifications(texts, names)
    missing = [name for index, name in enumerate(names) if index not in given and rest is None]
    if missing:
        raise UsageError(f"no value for {', '.join(missing)}: give --arg {missing[0]}=…, or --arg random for all")
    specifications = [given.get(index, rest) or "" for index in range(len(names))]
    known = dict(sizes)
    arrays: list[Array | None] = [_read_file(text) for text in specifications]
    for array, type in zip(arrays, types):
        if array is not None and isinstance(type, TensorType):
            _learn_sizes(array, type, known)
    made = []
    for index, (name, type, text) in enumerate(zip(names, types, specifications)):
        array = arrays[index]
        made.append(_fill(name, type, text, known, [seed, index]) if array is None else array)
    return made


def _read_file(text: str) -> Array | None:
    """The array of `x.npy` or `x.npz:key`; None for anything else."""
    import numpy as np

    path, _, key = text.rpartition(":") if ".npz:" in text else (text, "", "")
    if not path.endswith((".npy", ".npz")):
        return None
    try:
        loaded = np.load(path, allow_pickle=False)
        if not path.endswith(".npz"):
            return loaded
        if not key and len(loaded.files) == 1:
            key = loaded.files[0]
        if key not in loaded.files:
            raise UsageError(f"'{path}' has no array '{key}'; it has {', '.join(loaded.files)}")
        return loaded[key]
    except UsageError:
        raise
    except OSError as error:
        raise FileError(f"cannot read '{path}': {error.strerror or error}") from None
    except ValueError as error:
        raise FileError(f"cannot read '{path}': {error}") from None
    except Exception as error:  # a damaged archive raises whatever zipfile or zlib do
        raise FileError(f"cannot read '{path}': {type(error).__name__}: {error}") from None


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
    if kind in ("zeros", "ones"):
        return (np.zeros if kind == "zeros" else np.ones)(shape, dtype)
    if kind == "iota":
        return np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
    if kind in ("random", "normal"):
        return _random(name, kind, limits, shape, dtype, np.random.default_rng(list(seed)))
    try:
        number = {"true": 1.0, "false": 0.0}.get(text)
        value = float(text) if number is None else number
    except ValueError:
        hint = near_miss(kind, KINDS) if not os.path.exists(text) else " (files end in .npy or .npz)"
        raise UsageError(f"argument '{name}' is '{text}', expected a file, {', '.join(KINDS)} or a number{hint}") from None
    return np.full(shape, int(text) if text.lstrip("+-").isdigit() else value).astype(dtype)


def _random(name: str, kind: str, limits: Sequence[str], shape: tuple[int, ...], dtype: Any, generator: Any) -> Array:
    """Floats: normal, or uniform in [low, high); integers: uniform in [0, 10) or [low, high); i1: either."""
    if dtype.kind == "b":
        return generator.integers(0, 2, shape).astype(dtype)
    try:
        low, high = (float(limits[0]), float(limits[1])) if limits else (0.0, 10.0)
        if len(limits) not in (0, 2) or not low < high:
            raise ValueError
    except (ValueError, IndexError):
        raise UsageError(f"argument '{name}' is '{kind}:{':'.join(limits)}', expected {kind}:LOW:HIGH with LOW < HIGH") from None
    if dtype.kind in "iu":
        return generator.integers(int(low), int(high), shape).astype(dtype)
    if kind == "normal" or not limits:
        return generator.standard_normal(shape).astype(dtype)
    return generator.uniform(low, high, shape).astype(dtype)
