"""The front end through numba: the language of kernels to LLVM IR by numba's bytecode analysis, type inference and
lowering.

Only numba's front half is used, with the passes that a kernel needs: no Python wrapper, no cfunc wrapper, no
reference counts, no error handling, and LLVM is run by codegen.py.  The intrinsics are those of intrinsics.py: each
is a value of the type `IntrinsicType`, typed by its own rule and lowered by its own emitter, without a dispatcher, a
template or an overload.
"""

# mypy: disable-error-code="no-untyped-call, attr-defined, assignment, misc"
# numba has no types worth checking against.

from __future__ import annotations

import types as python_types
from collections.abc import Sequence
from typing import Any

from gradopt.lowering.native import codegen
from gradopt.lowering.native.errors import KernelError
from gradopt.lowering.native.frontend import parse_functions
from gradopt.lowering.native.intrinsics import CONSTANTS, table
from gradopt.lowering.native.program import KernelSource
from gradopt.lowering.native.values import (
    CONTEXT,
    SCALARS,
    Context,
    Emission,
    Intrinsic,
    Literal,
    Pointer,
    Scalar,
    Signature,
    Type,
    describe,
    fits,
    memory_type,
)
from llvmlite import ir
from numba.core import compiler, datamodel, funcdesc, lowering, types, typing
from numba.core.compiler_machinery import LoweringPass, PassManager, register_pass
from numba.core.errors import NumbaError
from numba.core.registry import cpu_target
from numba.core.typed_passes import IRLegalization, NopythonTypeInference, PreLowerStripPhis
from numba.core.untyped_passes import FixupArgs, IRProcessing, ReconstructSSA, TranslateByteCode
from numba.extending import models, register_model, typeof_impl

CONTEXT_TYPE = types.CPointer(types.int64)
_NUMBERS: dict[str, Any] = {
    "i1": types.boolean, "f32": types.float32, "f64": types.float64,
    "i8": types.int8, "i16": types.int16, "i32": types.int32, "i64": types.int64,
    "ui8": types.uint8, "ui16": types.uint16, "ui32": types.uint32, "ui64": types.uint64,
}  # fmt: skip
_SCALARS = {numba_type: SCALARS[name] for name, numba_type in _NUMBERS.items()}


class PointerType(types.Type):
    """A pointer of the language of kernels, with its alias group."""

    def __init__(self, pointer: Pointer) -> None:
        self.pointer = pointer
        super().__init__(name=f"Pointer({pointer.element}, {pointer.group})")


@register_model(PointerType)
class PointerModel(datamodel.models.PrimitiveModel):
    """A pointer is its LLVM pointer."""

    def __init__(self, manager: Any, numba_type: PointerType) -> None:
        super().__init__(manager, numba_type, memory_type(numba_type.pointer.element).as_pointer())


class IntrinsicType(types.Callable, types.Opaque):
    """The type of one intrinsic."""

    def __init__(self, intrinsic: Intrinsic) -> None:
        self.intrinsic = intrinsic
        super().__init__(f"Intrinsic({intrinsic.name})")

    def get_call_type(self, context: Any, args: Sequence[Any], kws: Any) -> Any:
        found = [from_numba(argument) for argument in args]
        signature = self.intrinsic.infer(found)
        for position, (argument, parameter) in enumerate(zip(found, signature.parameters, strict=True)):
            if not fits(argument, parameter):
                raise KernelError(
                    f"{self.intrinsic.name}: argument {position} must be {describe(parameter)}, found {describe(argument)}"
                )
        result = types.void if signature.result is None else to_numba(signature.result)
        return typing.signature(result, *[to_numba(parameter) for parameter in signature.parameters])

    def get_call_signatures(self) -> tuple[list[Any], bool]:
        return [], True

    def get_impl_key(self, sig: Any) -> Any:
        return self.intrinsic.name


register_model(IntrinsicType)(models.OpaqueModel)


class Handle:
    """What an intrinsic's name stands for in the globals of a kernel."""

    def __init__(self, intrinsic: Intrinsic) -> None:
        self.type = IntrinsicType(intrinsic)


@typeof_impl.register(Handle)
def _type_of_handle(handle: Handle, context: Any) -> IntrinsicType:
    return handle.type


def from_numba(numba_type: Any) -> Type:
    """The type in the language of kernels.  Raises KernelError for a type that is not part of it."""
    if isinstance(numba_type, types.IntegerLiteral):
        return Literal(int(numba_type.literal_value))
    if isinstance(numba_type, types.Literal):
        numba_type = types.unliteral(numba_type)
    if isinstance(numba_type, PointerType):
        return numba_type.pointer
    if numba_type == CONTEXT_TYPE:
        return CONTEXT
    if numba_type in _SCALARS:
        return _SCALARS[numba_type]
    raise KernelError(f"{numba_type} is not a type of the language of kernels")


def to_numba(type_: Type) -> Any:
    if isinstance(type_, Scalar):
        return _NUMBERS[type_.name]
    if isinstance(type_, Pointer):
        return PointerType(type_)
    if isinstance(type_, Literal):
        return types.literal(type_.value)
    return CONTEXT_TYPE if isinstance(type_, Context) else types.int64


class _Lower(lowering.Lower):
    """numba's lowering, with calls of intrinsics emitted directly."""

    emission: Emission | None = None

    def lower_global(self, ty: Any, value: Any) -> Any:
        return self.context.get_dummy_value()

    def lower_assign(self, ty: Any, inst: Any) -> Any:
        if isinstance(ty, IntrinsicType):
            return self.context.get_dummy_value()
        return super().lower_assign(ty, inst)

    def _lower_call_normal(self, fnty: Any, expr: Any, signature: Any) -> Any:
        if not isinstance(fnty, IntrinsicType):
            return super()._lower_call_normal(fnty, expr, signature)
        if self.emission is None:
            self.emission = Emission(self.builder, codegen.host().features)
        values = [
            self.context.cast(self.builder, self.loadvar(argument.name), self.typeof(argument.name), parameter)
            for argument, parameter in zip(expr.args, signature.args, strict=True)
        ]
        result = None if signature.return_type == types.void else from_numba(signature.return_type)
        own = Signature(tuple(from_numba(parameter) for parameter in signature.args), result)
        return fnty.intrinsic.emit(self.emission, own, values)


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerKernel(LoweringPass):
    """Lowering to an llvmlite module, and nothing after it."""

    _name = "gradopt_lower_kernel"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        descriptor = funcdesc.PythonFunctionDescriptor.from_specialized_function(
            state.func_ir, state.typemap, state.return_type, state.calltypes,
            mangler=state.targetctx.mangler, inline=False, noalias=False, abi_tags=[],
        )  # fmt: skip
        with state.targetctx.push_code_library(state.library):
            lower = _Lower(state.targetctx, state.library, descriptor, state.func_ir, metadata=state.metadata)
            lower.lower()
        if lower.emission is not None:
            lower.emission.finish(state.library.name)
        state.cr = descriptor
        return True


class _Compiler(compiler.CompilerBase):
    """The passes that a kernel needs."""

    def define_pipelines(self) -> list[Any]:
        manager = PassManager("gradopt_kernel")
        needed = (TranslateByteCode, FixupArgs, IRProcessing, ReconstructSSA, NopythonTypeInference, PreLowerStripPhis)
        for pass_ in (*needed, IRLegalization, _LowerKernel):
            manager.add_pass(pass_, pass_._name)
        manager.finalize()
        return [manager]


class _Library:
    """Stands where numba expects a code library: it keeps the module and links nothing."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.codegen = cpu_target.target_context.codegen()
        self.modules: list[ir.Module] = []

    def create_ir_module(self, name: str) -> ir.Module:
        return self.codegen._create_empty_module(name)

    def add_ir_module(self, module: ir.Module) -> None:
        self.modules.append(module)

    def add_linking_library(self, library: object) -> None:
        """numba offers its runtime to every function; kernels do not use it."""


def _function(kernel: KernelSource) -> python_types.FunctionType:
    """The Python function of a kernel's text, which parse_functions has found to be plain statements in one function."""
    functions = parse_functions(kernel.source)
    if len(functions) != 1 or functions[0].name != "kernel":
        raise KernelError(f"{kernel.name}: expected one function named kernel")
    names: dict[str, Any] = {name: Handle(intrinsic) for name, intrinsic in table().items()} | CONSTANTS
    exec(compile(kernel.source, f"<kernel {kernel.name}>", "exec"), names)
    function: python_types.FunctionType = names["kernel"]
    return function


def module_text(kernel: KernelSource, symbol: str) -> str:
    """The text of a module with the kernel as `symbol`.  Raises KernelError where numba rejects the source."""
    library = _Library(symbol)
    flags = compiler.Flags()
    flags.nrt = flags.enable_pyobject = flags.enable_looplift = False
    flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    flags.error_model = "numpy"
    arguments = (types.int64, types.int64, CONTEXT_TYPE)
    pipeline = _Compiler(cpu_target.typing_context, cpu_target.target_context, library, arguments, types.int32, flags, {})
    try:
        descriptor = pipeline.compile_extra(_function(kernel))
    except NumbaError as error:
        raise KernelError(f"{kernel.name}: {error}") from None
    module = library.modules[0]
    _add_entry(module, descriptor, symbol)
    return "\n".join(line for line in str(module).splitlines() if not line.startswith("target "))


def _add_entry(module: ir.Module, descriptor: Any, symbol: str) -> None:
    """A function with the kernels' signature around numba's, which becomes internal and is inlined."""
    inner = module.globals[descriptor.llvm_func_name]
    inner.linkage = "internal"
    inner.attributes.add("alwaysinline")
    for value in module.global_values:
        if isinstance(value, ir.GlobalVariable) and value.linkage == "common":
            value.linkage, value.initializer = "internal", ir.Constant(value.type.pointee, None)
    i32, i64 = ir.IntType(32), ir.IntType(64)
    function = ir.Function(module, ir.FunctionType(i32, [i64, i64, i64.as_pointer()]), symbol)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    result = builder.alloca(i32)
    builder.store(ir.Constant(i32, 1), result)
    problem = builder.alloca(inner.args[1].type.pointee)
    builder.call(inner, [result, problem, *function.args])
    builder.ret(builder.load(result))
