"""Runs one-op programs of `hl` and `bwd` by every route: NumPy meaning, decomposed, differentiated before or after
decomposing."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gradopt.dialects.arrays import numpy_dtype
from gradopt.ir.operation import Operation
from gradopt.ir.symbols import lookup_symbol
from gradopt.ir.types import FloatType, TensorType
from gradopt.lowering.interpreter import run_function
from neural_samples import BATCH, Sample

import gradopt

Array = Any
REFERENCE = Path(__file__).with_name("neural_reference.npz")


def program(sample: Sample | str, dynamic: bool = False) -> str:
    """A module with the function @f around one op; `dynamic`: its batch size is `?`."""
    text = sample if isinstance(sample, str) else sample.text
    prefix = ""
    if dynamic and "{S}" in text:
        first = re.search(r": \((tensor<[^>]*>)", text)
        assert first is not None
        prefix = f"  %n = prim.dim %a0 {{axis = 0}} : ({first.group(1).replace('{N}', '?')}) -> tensor<i64>\n"
    text = text.replace("{S}", ", %n" if dynamic else "").replace("{T}", ", tensor<i64>" if dynamic else "")
    text = re.sub(r"%(\d)", r"%a\1", text.replace("{N}", "?" if dynamic else str(BATCH)))
    head, _, results = text.rpartition(" -> ")
    operands = re.findall(r"tensor<[^>]*>", head.rpartition(" : ")[2])
    names = re.findall(r"%a\d", head)
    arguments = ", ".join(f"{name}: {type}" for name, type in zip(names, operands))
    types = re.findall(r"tensor<[^>]*>", results)
    values = ", ".join(f"%r{index}" for index in range(len(types)))
    listed = ", ".join(types)
    return (f"func.func @f({arguments}) -> ({listed}) {{\n{prefix}  {values} = {head} -> ({listed})\n"
            f"  return {values} : {listed}\n}}\n")


def arrays_for(sample: Sample, module: Operation) -> list[Array]:
    """The same arrays for the static and the dynamic variant of a sample."""
    random = np.random.default_rng(zlib.crc32(sample.text.encode()))
    found = []
    for index, type in enumerate(argument_types(module)):
        made = sample.data.get(index)
        shape = tuple(BATCH if size is None else size for size in type.shape)
        array = random.standard_normal(shape) if made is None else made(random)
        array = np.asarray(array).astype(numpy_dtype(type.element))
        assert array.shape == shape, f"{sample.text}: operand {index} is {array.shape}"
        found.append(array)
    return found


def argument_types(module: Operation, name: str = "f") -> list[TensorType]:
    """The types of a function's arguments."""
    function = lookup_symbol(module, name)
    assert function is not None
    return [argument.type for argument in function.regions[0].blocks[0].arguments]


def result_types(module: Operation, name: str = "f") -> list[TensorType]:
    """The types of what a function returns."""
    function = lookup_symbol(module, name)
    assert function is not None
    return [operand.type for operand in function.regions[0].blocks[0].last.operands]


def parsed(sample: Sample | str, dynamic: bool = False, passes: str = "") -> Operation:
    """The verified module of a sample, after passes; the result is verified too."""
    module = gradopt.parse(program(sample, dynamic))
    if passes:
        gradopt.run_passes(module, passes)
        gradopt.verify(module)
    return module


def run(module: Operation, arrays: Sequence[Array], name: str = "f") -> list[Array]:
    """The results by the NumPy meaning of whatever ops the function has."""
    return run_function(module, name, list(arrays))


def evaluate(text: str, *arrays: Array) -> list[Array]:
    """One op on arrays, by its NumPy meaning and decomposed; fails where the two differ. Returns the NumPy meaning's
    results."""
    operands = [np.asarray(array) for array in arrays]
    found = run(parsed(text), operands)
    lowered = parsed(text, passes="decompose")
    assert not leftovers(lowered), f"{text}: {leftovers(lowered)} left"
    for index, (one, two) in enumerate(zip(found, run(lowered, operands))):
        np.testing.assert_allclose(two, one, 1e-6, 1e-7, err_msg=f"{text}: result {index}, decomposed")
    return found


def gradients(text: str, arrays: Sequence[Array], cotangents: Sequence[Array]) -> list[Array]:
    """The gradients by all float operands; fails where the bwd ops, decomposed or not, and the derivative of the
    decomposed op differ."""
    found = []
    for passes in (VJP, f"{VJP},decompose", f"decompose,{VJP}"):
        module = parsed(text, passes=passes)
        results = run(module, [*arrays, *cotangents], "f_vjp")
        found.append(results[len(result_types(module)):])
    for route in found[1:]:
        for index, (one, two) in enumerate(zip(found[0], route)):
            np.testing.assert_allclose(two, one, 1e-6, 1e-7, err_msg=f"{text}: gradient {index}")
    return found[0]


VJP = "autodiff{func=f mode=vjp}"


def leftovers(module: Operation) -> list[str]:
    """The names of ops that decompose should not have left."""
    return sorted({op.name for op in module.walk() if op.name.split(".")[0] in ("hl", "bwd", "ad")})


def floats(types: Sequence[TensorType]) -> list[int]:
    """Which of the types are float tensors."""
    return [index for index, type in enumerate(types) if isinstance(type.element, FloatType)]


def read_reference() -> dict[str, Mapping[str, Any]]:
    """The cases that `make_torch_reference.py` wrote: name -> text, in0 …, out0 …, dout0 …, grad0 …."""
    with np.load(REFERENCE) as stored:
        index, values = json.loads(str(stored["index"])), stored["values"]
    cases: dict[str, dict[str, Any]] = {}
    for key, entry in index.items():
        name, _, field = key.partition("/")
        if field == "text":
            cases.setdefault(name, {})[field] = entry
            continue
        position, dtype, shape = entry
        count = int(np.prod(shape, dtype=np.int64))
        cases.setdefault(name, {})[field] = values[position: position + count].reshape(shape).astype(dtype)
    return dict(cases)
