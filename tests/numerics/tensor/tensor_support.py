"""Samples (one operation with example operands) as modules, and what every route makes of them.

A type is written `Nx4`, `2x3:i64` or `:i1`: sizes, then the element type, which is the float type under test where it is left
out. The size `N` is 3 in the static variant, `?` in the dynamic one and the name `n` in the named one.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gradopt.dialects.arrays import numpy_dtype
from gradopt.dialects.func import make_function
from gradopt.ir.attributes import TypeAttr
from gradopt.ir.builder import Builder, make_operation
from gradopt.ir.dialect import operation_class
from gradopt.ir.operation import Operation, new_region
from gradopt.ir.sizes import UNKNOWN, named_size
from gradopt.ir.symbols import lookup_symbol
from gradopt.ir.types import F64, I64, FloatType, FunctionType, IntegerType, TensorType, Type, tensor
from gradopt.lowering.interpreter import run_function

import gradopt

Array = Any
Random = np.random.Generator
Make = Callable[[Random, tuple[int, ...]], Any]

SIZE = 3  # of N
VJP, JVP = "autodiff{func=f mode=vjp}", "autodiff{func=f mode=jvp}"
STATIC, DYNAMIC, NAMED = "static", "dynamic", "named"


def normal(random: Random, shape: tuple[int, ...]) -> Any:
    """Normal floats."""
    return random.standard_normal(shape)


def positive(random: Random, shape: tuple[int, ...]) -> Any:
    """Floats in [0.5, 2)."""
    return random.uniform(0.5, 2.0, shape)


def between(low: float, high: float) -> Make:
    """Floats in [low, high)."""
    return lambda random, shape: random.uniform(low, high, shape)


def integers(low: int, high: int) -> Make:
    """Integers in [low, high)."""
    return lambda random, shape: random.integers(low, high, shape)


def booleans(random: Random, shape: tuple[int, ...]) -> Any:
    """Truth values."""
    return random.random(shape) < 0.5


def given(values: Any) -> Make:
    """These values."""
    return lambda random, shape: np.array(values)


@dataclass(frozen=True, eq=False)
class Sample:
    """One operation on example operands.

    `operands` and `results` are types in the notation above (results only where the type rule cannot infer them), `data` says how
    the arrays of some operands are made, `smooth` that central differences make sense, `reference` computes the results from the
    arrays independently of gradopt (and of the op's NumPy meaning), `exact` that all results are the same bits whatever the route.
    """

    name: str
    operands: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    results: tuple[str, ...] | None = None
    data: Mapping[int, Make] = field(default_factory=dict)
    smooth: bool = True
    reference: Callable[..., Any] | None = None
    exact: bool = False

    @property
    def label(self) -> str:
        """Short text for the name of a test."""
        shown = ", ".join(f"{key}={value}" for key, value in self.attributes.items())
        made = "" if self.results is None else " -> " + " ".join(each or "scalar" for each in self.results)
        return f"{self.name.replace('hl.', '')} {' '.join(each or 'scalar' for each in self.operands)}{made} {shown[:60]}".strip()

    @property
    def is_dynamic(self) -> bool:
        """Whether it has a size N."""
        return any("N" in text for text in (*self.operands, *(self.results or ())))

    @property
    def has_float(self) -> bool:
        """Whether an operand or result has the float type under test."""
        return any(":" not in text for text in (*self.operands, *(self.results or ())))


def op(
    name: str,
    *operands: str,
    results: str | Iterable[str] | None = None,
    data: Mapping[int, Make] | Make | None = None,
    smooth: bool = True,
    reference: Callable[..., Any] | None = None,
    exact: bool = False,
    **attributes: Any,
) -> Sample:
    """A sample of `hl.<name>` (or of a full name); one Make for `data` is that of every float operand."""
    if callable(data):
        data = {index: data for index, text in enumerate(operands) if ":" not in text}
    listed = None if results is None else (results,) if isinstance(results, str) else tuple(results)
    return Sample(name if "." in name else f"hl.{name}", operands, attributes, listed, data or {}, smooth, reference, exact)


ELEMENTS: dict[str, Type] = {"f16": FloatType("f16"), "bf16": FloatType("bf16"), "f32": FloatType("f32"), "f64": F64}
ELEMENTS |= {f"i{width}": IntegerType(width) for width in (1, 8, 16, 32, 64)}
ELEMENTS |= {f"ui{width}": IntegerType(width, "unsigned") for width in (8, 16, 32, 64)}


def read_type(text: str, variant: str = STATIC, element: str = "f64") -> TensorType:
    """The type that a text in the notation above stands for."""
    sizes, _, own = text.partition(":")
    n = {STATIC: SIZE, DYNAMIC: UNKNOWN, NAMED: named_size("n")}[variant]
    dims = [n if size == "N" else int(size) for size in sizes.split("x")] if sizes else []
    return tensor(dims, ELEMENTS[own or element])


def module_of(samples: Sample | Sequence[Sample], variant: str = STATIC, element: str = "f64", passes: str = "") -> Operation:
    """A verified module whose function @f applies samples to its arguments, after passes (the result is verified too).

    In the dynamic variant an op that takes `sizes` reads each off an operand that has the size, or gets an argument for it."""
    module = make_operation(operation_class("builtin.module"), [], {}, regions=[new_region()])
    function = make_function("f", [], [])
    Builder(module.regions[0].block).insert(function)
    block = function.regions[0].block
    b, returned = Builder(block), []
    for sample in [samples] if isinstance(samples, Sample) else samples:
        arguments = [block.add_argument(read_type(text, variant, element)) for text in sample.operands]
        types = None if sample.results is None else [read_type(text, variant, element) for text in sample.results]
        if variant == DYNAMIC and (count := missing_sizes(sample)):
            where = [(value, type.index(UNKNOWN)) for value in arguments if UNKNOWN in (type := value.type.dims)]
            if where:
                arguments += [b.prim.dim(where[0][0], axis=where[0][1]) for _ in range(count)]
            else:
                arguments += [block.add_argument(tensor((), I64)) for _ in range(count)]
        returned += b.create(sample.name, arguments, types, **sample.attributes).results
    b.create("func.return", returned)
    signature = FunctionType(tuple(each.type for each in block.arguments), tuple(value.type for value in returned))
    function.properties = {**function.properties, "function_type": TypeAttr(signature)}
    gradopt.verify(module)
    if passes:
        gradopt.run_passes(module, passes.removeprefix(","))
        gradopt.verify(module)
    return module


def arrays_of(sample: Sample, element: str = "f64") -> list[Array]:
    """The operands of a sample: the same numbers for each variant and (rounded) for each element type."""
    random = np.random.default_rng(zlib.crc32(sample.label.encode()))
    found = []
    for index, text in enumerate(sample.operands):
        type = read_type(text, STATIC, element)
        kind = type.element
        make = sample.data.get(index) or (
            normal if isinstance(kind, FloatType) else booleans if kind.width == 1 else integers(0 if kind.is_unsigned else -4, 6)
        )
        array = np.asarray(make(random, type.shape)).astype(numpy_dtype(kind))
        assert array.shape == type.shape, f"{sample.label}: operand {index} is {array.shape}"
        found.append(array)
    return found


def missing_sizes(sample: Sample) -> int:
    """How many `sizes` operands the dynamic variant takes."""
    if sample.results is None or not any(each.name == "sizes" for each in operation_class(sample.name).definition.operands):
        return 0
    return sum(text.partition(":")[0].split("x").count("N") for text in sample.results)


def size_arrays(sample: Sample, variant: str) -> list[Array]:
    """The arguments for sizes that no operand has."""
    if variant != DYNAMIC or any("N" in text for text in sample.operands):
        return []
    return [np.array(SIZE)] * missing_sizes(sample)


def run(module: Operation, arrays: Sequence[Array], name: str = "f") -> list[Array]:
    """The results of a function by the NumPy meaning of its ops, checked against their types."""
    found = run_function(module, name, list(arrays))
    for array, type in zip(found, result_types(module, name), strict=True):
        assert array.dtype == numpy_dtype(type.element), f"{array.dtype} for {type.text}"
        assert len(type.shape) == array.ndim, f"shape {array.shape} for {type.text}"
        assert all(size is None or size == actual for size, actual in zip(type.shape, array.shape)), f"{array.shape} for {type.text}"
    return found


@functools.cache
def meaning(sample: Sample, element: str = "f64") -> tuple[list[Array], list[Array]]:
    """(operands, results by the NumPy meaning) of the static variant."""
    arrays = arrays_of(sample, element)
    return arrays, run(module_of(sample, STATIC, element), arrays)


def function_of(module: Operation, name: str = "f") -> Operation:
    """A function by its name."""
    function = lookup_symbol(module, name)
    assert function is not None, f"no function @{name}"
    return function


def argument_types(module: Operation, name: str = "f") -> list[TensorType]:
    """The types of a function's arguments."""
    return [argument.type for argument in function_of(module, name).regions[0].block.arguments]


def result_types(module: Operation, name: str = "f") -> list[TensorType]:
    """The types of what a function returns."""
    return [operand.type for operand in function_of(module, name).regions[0].block.last.operands]


def floats(arrays: Iterable[Array]) -> list[Array]:
    """The float arrays among arrays."""
    return [array for array in arrays if array.dtype.kind in "fV"]


def random_like(arrays: Iterable[Array], seed: int) -> list[Array]:
    """Normal arrays of the shapes and types of the float ones."""
    random = np.random.default_rng(seed)
    return [np.asarray(random.standard_normal(array.shape)).astype(array.dtype) for array in floats(arrays)]


def leftovers(module: Operation) -> list[str]:
    """The names of ops that decompose should not have left."""
    return sorted({each.name for each in module.walk() if each.name.split(".")[0] in ("hl", "bwd", "ad")})


TOLERANCE = {"f64": 1e-11, "f32": 2e-5, "f16": 4e-3, "bf16": 3e-2}


def close(found: Array, expected: Array, what: str, tolerance: float = 1e-11) -> None:
    """Asserts equal shapes and types, and values to a tolerance relative to the largest finite one; NaN equals NaN."""
    expected = np.asarray(expected)
    assert found.shape == expected.shape, f"{what}: shape {found.shape}, expected {expected.shape}"
    assert found.dtype == expected.dtype, f"{what}: {found.dtype}, expected {expected.dtype}"
    if found.dtype.kind in "iub":
        np.testing.assert_array_equal(found, expected, err_msg=what)
        return
    one, two = found.astype(np.float64), expected.astype(np.float64)
    size = np.abs(two[np.isfinite(two)]).max(initial=1.0)
    np.testing.assert_allclose(one, two, rtol=tolerance, atol=tolerance * size, err_msg=what)
