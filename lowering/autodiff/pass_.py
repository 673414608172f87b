"""The pass that writes derivatives of functions and lowers the `ad` ops."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from gradopt.ir.attributes import StringAttr
from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.dialect import near_miss
from gradopt.ir.operation import Operation
from gradopt.ir.symbols import symbol_name
from gradopt.lowering.autodiff.context import is_float_tensor
from gradopt.lowering.autodiff.functions import MODES, check_seedable, derive_function, resolve_wrt
from gradopt.lowering.autodiff.requests import lower_requests
from gradopt.lowering.autodiff.split import split_function
from gradopt.lowering.autodiff.state import State
from gradopt.lowering.passes.base import Pass, PassContext, option
from gradopt.lowering.tasks import run_task

__all__ = ["AutodiffPass"]


@dataclasses.dataclass(frozen=True)
class AutodiffPass(Pass):
    """Writes the derivative of functions, and lowers the `ad` ops.

    Only operations between the wanted inputs and the outputs are differentiated; what the derivative does not read is not kept.
    `wrt` takes positions or names of arguments (default: all float ones). Without `func`, every public function that returns a
    float is differentiated. `split=true` writes `@f_fwd` (results and what the derivative reads) and `@f_bwd` instead of one
    function. New functions: `@f_grad`, `@f_value_and_grad`, `@f_vjp`, `@f_jvp`, `@f_hvp`.

    Needs: functions of one block. Guarantees: no `ad` op is left.

    Before (`autodiff{func=f}`):

        func.func @f(%x: tensor<f32>) -> tensor<f32> {
          %y = prim.sin %x : tensor<f32>
          return %y : tensor<f32>
        }

    After:

        func.func @f(%x: tensor<f32>) -> tensor<f32> {
          %y = prim.sin %x : tensor<f32>
          return %y : tensor<f32>
        }
        func.func @f_grad(%x: tensor<f32>) -> tensor<f32> {
          %0 = prim.constant {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
          %1 = prim.cos %x : tensor<f32>
          %2 = prim.mul %0, %1 : tensor<f32>
          return %2 : tensor<f32>
        }
    """

    name: ClassVar[str] = "autodiff"
    anchor: ClassVar[str | None] = "builtin.module"
    func: str = option("", "the function to differentiate; every public one that returns a float by default")
    wrt: tuple[int | str, ...] = option((), "the arguments to differentiate with respect to; all float ones by default")
    mode: str = option("grad", "which derivative", choices=MODES)
    split: bool = option(False, "write a forward and a backward function instead of one")

    def run(self, op: Operation, context: PassContext) -> None:
        """Lowers the requests, then differentiates what the options ask for."""
        with paused_collection():
            self.differentiate_module(op, context)

    def differentiate_module(self, op: Operation, context: PassContext) -> None:
        """The pass itself."""
        state = State(op)
        requested = lower_requests(state)
        for function in self.functions(state, implicit=not requested):
            self.differentiate(state, function)
            context.count("functions differentiated")
        state.raise_missing()

    def functions(self, state: State, implicit: bool) -> list[Operation]:
        """What to differentiate. A module whose `ad` ops were just lowered has said what it wants, unless `func` asks for
        more."""
        if self.func:
            name = self.func.removeprefix("@")
            found = state.function(name)
            if found is None or found.name != "func.func":
                raise GradoptError.at(state.module.location, f"there is no function '@{name}'"
                                      + near_miss(name, state.symbols))
            return [found]
        if not implicit:
            return []
        return [function for function in state.symbols.values() if function.name == "func.func" and is_public(function)
                and returns_float(function)]

    def differentiate(self, state: State, function: Operation) -> None:
        """Adds one function's derivative."""
        name = symbol_name(function)
        if self.split and self.mode in ("jvp", "hvp"):
            raise GradoptError.at(function.location, f"mode={self.mode} of '@{name}' has no forward and backward part: split=true goes with "
                                  "grad, value_and_grad and vjp")
        check_seedable(function, self.mode, function.location)
        wrt = resolve_wrt(function, self.wrt or None, function.location)
        if not wrt:
            raise GradoptError.at(function.location, f"function '@{name}' has no float argument to differentiate with respect to")
        if self.split:
            run_task(split_function(state, function, wrt))
        else:
            run_task(derive_function(state, function, self.mode, wrt, f"{name}_{self.mode}"))


@contextmanager
def paused_collection() -> Iterator[None]:
    """Pauses the collector of cyclic garbage: everything that the pass makes is kept, and looking through it again and again
    would
    take longer than making it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if not gc.get_freeze_count():  # whoever froze objects wants to keep them frozen
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def is_public(function: Operation) -> bool:
    """True unless the function is private or nested."""
    visibility = function.properties.get("sym_visibility") or function.attributes.get("sym_visibility")
    return not isinstance(visibility, StringAttr) or visibility.value == "public"


def returns_float(function: Operation) -> bool:
    """True for a function with a body that returns a float tensor and takes one."""
    if len(function.regions) != 1 or len(function.regions[0].blocks) != 1:
        return False
    block = function.regions[0].block
    return (block.last is not None and any(is_float_tensor(value.type) for value in block.last.operands)
            and any(is_float_tensor(argument.type) for argument in block.arguments))
