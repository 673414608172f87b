"""Scalar math functions as LLVM IR that the loop vectoriser can widen; no call to libm.

`EMITTERS` maps a function's name to its `MathFunction`. A caller in the middle of building a kernel writes::

    value = EMITTERS["tanh"].emit(builder, [operand], "f32", target_features)

and gets the LLVM value. `target_features` is the LLVM feature string the code will be compiled for, as
``llvmlite.binding.get_host_cpu_features().flatten()`` gives it. f16 and bf16 are converted to f32 by the caller.
`emit` may open new basic blocks (the builder is left at the end of the last one) and may add internal functions and
constants to the builder's module.

Accuracy: at most 4 ulp in f32 and 2 ulp in f64 over the whole range, subnormals, huge values, signed zeros and
infinities included; NaN in, NaN out (except where C99 says otherwise: pow(x, 0) and pow(1, y)).
This module imports llvmlite: import it where kernels are compiled, not before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradopt.lowering.native.math import (
    algebraic,
    circular,
    error_function,
    exponential,
    hyperbolic,
    inverse_circular,
    logarithm,
    power,
    remainder,
    rounding,
)
from gradopt.lowering.native.math.lane import FORMATS, Lane, LaneFunction, Target
from llvmlite import ir

__all__ = ["EMITTERS", "MathFunction"]


@dataclass(frozen=True)
class MathFunction:
    """A math function: its name, its number of operands and its body over `Lane`."""

    name: str
    arity: int
    body: LaneFunction

    @property
    def description(self) -> str:
        """What the function computes and by which method."""
        return self.body.__doc__ or ""

    def emit(
        self, builder: ir.IRBuilder, operands: Sequence[ir.Value], element_type: str, target_features: str
    ) -> ir.Value:
        """Emit the function at `builder` and return its value.

        `operands` are `arity` values of `element_type` ("f32" or "f64").
        Raises ValueError for another element type or number of operands.
        """
        if element_type not in FORMATS:
            raise ValueError(f"{self.name}: element type {element_type!r}, expected one of {sorted(FORMATS)}")
        if len(operands) != self.arity:
            raise ValueError(f"{self.name}: {len(operands)} operands, expected {self.arity}")
        target = Target.from_features(target_features)
        lanes = [Lane(builder, operand, FORMATS[element_type], target) for operand in operands]
        result: ir.Value = self.body(*lanes).value
        return result


_UNARY: dict[str, LaneFunction] = {
    "exp": exponential.exp,
    "exp2": exponential.exp2,
    "expm1": exponential.expm1,
    "sigmoid": exponential.sigmoid,
    "log": logarithm.log,
    "log2": logarithm.log2,
    "log1p": logarithm.log1p,
    "sin": circular.sin,
    "cos": circular.cos,
    "tan": circular.tan,
    "asin": inverse_circular.asin,
    "acos": inverse_circular.acos,
    "atan": inverse_circular.atan,
    "sinh": hyperbolic.sinh,
    "cosh": hyperbolic.cosh,
    "tanh": hyperbolic.tanh,
    "asinh": hyperbolic.asinh,
    "acosh": hyperbolic.acosh,
    "atanh": hyperbolic.atanh,
    "erf": error_function.erf,
    "erfc": error_function.erfc,
    "erfinv": error_function.erfinv,
    "sqrt": algebraic.sqrt,
    "rsqrt": algebraic.rsqrt,
    "recip": algebraic.recip,
    "floor": rounding.floor,
    "ceil": rounding.ceil,
    "round": rounding.round_even,
    "trunc": rounding.trunc,
}

_BINARY: dict[str, LaneFunction] = {
    "atan2": inverse_circular.atan2,
    "pow": power.pow,
    "fmod": remainder.fmod,
    "floor_mod": remainder.floor_mod,
}

EMITTERS: Mapping[str, MathFunction] = {
    name: MathFunction(name, arity, body)
    for arity, table in ((1, _UNARY), (2, _BINARY))
    for name, body in table.items()
}
