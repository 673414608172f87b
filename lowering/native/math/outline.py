"""A rare case as an out-of-line scalar function, in a loop that is still vectorised.

LLVM's loop vectoriser refuses a loop with a call of a function that has no vector variant. One that has a masked variant
of some width may be in a conditional block; for another width the vectoriser tests each element of the vector and calls
the scalar function where the condition holds. So the call site names a variant of a width that no target uses, and the
common path stays vector code with one test for an element.
"""

from __future__ import annotations

from collections.abc import Sequence

from gradopt.lowering.native.math.lane import BOOLEAN, Lane, LaneFunction
from llvmlite import ir

_UNUSED_WIDTH = 128


class _VariantCall(ir.instructions.CallInstr):  # type: ignore[misc]
    """A call with the attribute that names a vector variant (llvmlite has no notation for it)."""

    variant = ""

    def descr(self, buf: list[str]) -> None:
        """Append the call's text."""
        text: list[str] = []
        super().descr(text)
        attributes = f'nounwind willreturn memory(none) "vector-function-abi-variant"="{self.variant}"'
        buf.append("".join(text).rstrip("\n") + f" {attributes}\n")


def _function(like: Lane, name: str, body: LaneFunction, arity: int) -> ir.Function:
    """The module's out-of-line function `name`, made at its first use."""
    module = like.builder.module
    if name in module.globals:
        return module.globals[name]
    type = like.format.type
    function = ir.Function(module, ir.FunctionType(type, [type] * arity), name)
    function.linkage = "internal"
    if like.target.has_avx:
        # This convention keeps zmm16 to zmm31 (ymm8 to ymm15 with AVX2) across the call. With the usual one, which
        # keeps no vector register, the common path would hold its constants in memory.
        function.calling_convention = "intel_ocl_bicc"
    for attribute in ("noinline", "nounwind"):
        function.attributes.add(attribute)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    builder.ret(body(*(Lane(builder, argument, like.format, like.target) for argument in function.args)).value)
    return function


def _keep(module: ir.Module, function: ir.Function) -> None:
    """Enter the function in llvm.compiler.used: nothing but an attribute mentions it, and LLVM would drop it."""
    pointer = ir.IntType(8).as_pointer()
    kept = [function.bitcast(pointer)]
    used = module.globals.get("llvm.compiler.used")
    if used is None:
        used = ir.GlobalVariable(module, ir.ArrayType(pointer, 1), "llvm.compiler.used")
        used.linkage, used.section = "appending", "llvm.metadata"
    else:
        kept = [*used.initializer.constant, *kept]
    used.value_type = ir.ArrayType(pointer, len(kept))
    used.type = used.value_type.as_pointer()
    used.initializer = ir.Constant(used.value_type, kept)


def _variant(like: Lane, name: str, arity: int) -> str:
    """The mangled name that maps the scalar function to a masked variant; the variant is declared, never called."""
    module, variant = like.builder.module, f"{name}_wide"
    if variant not in module.globals:
        vector = ir.VectorType(like.format.type, _UNUSED_WIDTH)
        mask = ir.VectorType(BOOLEAN, _UNUSED_WIDTH)
        function = ir.Function(module, ir.FunctionType(vector, [vector] * arity + [mask]), variant)
        _keep(module, function)
    return f"_ZGV_LLVM_M{_UNUSED_WIDTH}{'v' * arity}_{name}({variant})"


def call_where(condition: Lane, common: Lane, name: str, body: LaneFunction, operands: Sequence[Lane]) -> Lane:
    """`common`, or where `condition` holds (rarely) the value of `body` of the operands, out of line as `name`."""
    builder = common.builder
    function = _function(common, name, body, len(operands))
    start = builder.block
    rare, after = builder.append_basic_block("rare"), builder.append_basic_block("after")
    builder.cbranch(condition.value, rare, after)
    builder.position_at_end(rare)
    call = _VariantCall(rare, function, [operand.value for operand in operands])
    call.variant = _variant(common, name, len(operands))
    builder._insert(call)
    builder.branch(after)
    builder.position_at_end(after)
    result = builder.phi(common.format.type)
    result.add_incoming(common.value, start)
    result.add_incoming(call, rare)
    return common.like(result)
