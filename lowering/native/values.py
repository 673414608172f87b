"""Types of values in the language of kernels, and the place where intrinsics emit their LLVM instructions.

Used by both front ends (numba_frontend.py and frontend.py), so that an intrinsic is written once.  Imports llvmlite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gradopt.lowering.native.elements import ELEMENTS
from gradopt.lowering.native.errors import KernelError
from llvmlite import ir

I1, I8, I16, I32, I64 = (ir.IntType(width) for width in (1, 8, 16, 32, 64))
F32, F64 = ir.FloatType(), ir.DoubleType()


@dataclass(frozen=True)
class Scalar:
    """A number: kind is "f" (float), "i" (signed), "u" (unsigned) or "b" (boolean)."""

    name: str
    kind: str
    bits: int

    @property
    def llvm(self) -> ir.Type:
        if self.kind == "f":
            return F32 if self.bits == 32 else F64
        return ir.IntType(self.bits)

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_signed(self) -> bool:
        return self.kind == "i"


SCALARS: dict[str, Scalar] = {
    "i1": Scalar("i1", "b", 1),
    "f32": Scalar("f32", "f", 32),
    "f64": Scalar("f64", "f", 64),
    **{f"i{bits}": Scalar(f"i{bits}", "i", bits) for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": Scalar(f"ui{bits}", "u", bits) for bits in (8, 16, 32, 64)},
}
BOOLEAN, INT32, INT64 = SCALARS["i1"], SCALARS["i32"], SCALARS["i64"]
FLOAT32, FLOAT64 = SCALARS["f32"], SCALARS["f64"]


@dataclass(frozen=True)
class Pointer:
    """The address of elements of one type.  Accesses of two different groups never touch the same memory."""

    element: str
    group: str

    @property
    def llvm(self) -> ir.Type:
        return memory_type(self.element).as_pointer()

    @property
    def value(self) -> Scalar:
        return SCALARS[ELEMENTS[self.element].value]


@dataclass(frozen=True)
class Context:
    """The third parameter of a kernel (see context.py for its words)."""

    @property
    def llvm(self) -> ir.Type:
        return I64.as_pointer()


@dataclass(frozen=True)
class Literal:
    """An integer written in the source; it takes the type that its place asks for, i64 when none does."""

    value: int

    @property
    def llvm(self) -> ir.Type:
        return I64


CONTEXT = Context()
Type = Scalar | Pointer | Context | Literal


@dataclass(frozen=True)
class Signature:
    """What an intrinsic takes and gives (None: nothing)."""

    parameters: tuple[Type, ...]
    result: Type | None


@dataclass
class Emission:
    """Where an intrinsic emits: the builder, the processor's features, and the accesses made so far with their alias
    groups.
    """

    builder: ir.IRBuilder
    features: str = ""
    accesses: list[tuple[ir.Instruction, str]] = field(default_factory=list)

    def access(self, instruction: ir.Instruction, pointer: Pointer) -> ir.Instruction:
        self.accesses.append((instruction, pointer.group))
        return instruction

    def finish(self, unique: str) -> None:
        """Mark every access with its alias scope and with the scopes it can never touch.

        Scopes are named by strings, which LLVM takes as identities, so `unique` must differ between functions of one
        module.
        """
        groups = sorted({group for _, group in self.accesses})
        if len(groups) < 2:
            return
        module = self.builder.module
        domain = module.add_metadata([f"{unique}.domain"])
        scopes = {group: module.add_metadata([f"{unique}.{group}", domain]) for group in groups}
        own = {group: module.add_metadata([scopes[group]]) for group in groups}
        others = {group: module.add_metadata([scopes[other] for other in groups if other != group]) for group in groups}
        for instruction, group in self.accesses:
            instruction.set_metadata("alias.scope", own[group])
            instruction.set_metadata("noalias", others[group])


@dataclass(frozen=True)
class Intrinsic:
    """A function of the language of kernels: its type rule and its instructions."""

    name: str
    infer: Callable[[Sequence[Type]], Signature]
    emit: Callable[[Emission, Signature, Sequence[ir.Value]], ir.Value | None]
    summary: str = ""


def memory_type(element: str) -> ir.Type:
    """How an element lies in memory (i1 is a byte, f16 and bf16 are 16 bits)."""
    if element in ("f16", "bf16"):
        return I16
    if element == "i1":
        return I8
    return SCALARS[element].llvm


def describe(type_: Type | None) -> str:
    """A type in a message."""
    if isinstance(type_, Scalar):
        return type_.name
    if isinstance(type_, Pointer):
        return f"pointer to {type_.element}"
    if isinstance(type_, Literal):
        return f"the integer {type_.value}"
    return "the context" if isinstance(type_, Context) else "nothing"


def expect_count(name: str, arguments: Sequence[Type], count: int) -> None:
    if len(arguments) != count:
        raise KernelError(f"{name} takes {count} arguments, found {len(arguments)}")


def fits(argument: Type, parameter: Type) -> bool:
    """Whether an argument may stand where a parameter of this type is expected."""
    if isinstance(argument, Literal):
        return isinstance(parameter, Literal) or (isinstance(parameter, Scalar) and parameter.kind in "iu")
    return argument == parameter


def common_scalar(name: str, arguments: Sequence[Type]) -> Scalar:
    """The one scalar type that all arguments share; integer literals take the type of the others."""
    scalars = {argument for argument in arguments if not isinstance(argument, Literal)}
    if not scalars:
        return INT64
    if len(scalars) > 1 or not all(isinstance(scalar, Scalar) for scalar in scalars):
        found = ", ".join(describe(argument) for argument in arguments)
        raise KernelError(f"{name}: expected scalars of one type, found {found}")
    scalar = scalars.pop()
    assert isinstance(scalar, Scalar)
    if scalar.kind not in "iu" and any(isinstance(argument, Literal) for argument in arguments):
        raise KernelError(f"{name}: an integer literal beside {scalar.name}; write {scalar.name}(…)")
    return scalar


def constant(scalar: Scalar, value: float | int) -> ir.Constant:
    return ir.Constant(scalar.llvm, value)


def intrinsic_call(
    emission: Emission,
    name: str,
    arguments: Sequence[ir.Value],
    result: ir.Type,
    overloads: Sequence[ir.Type],
    flags: Sequence[str] = (),
) -> ir.Value:
    """Call an LLVM intrinsic by name; `overloads` are the types in its suffix."""
    suffix = "".join("." + overload_name(overload) for overload in overloads)
    function = declare(emission.builder.module, name + suffix, ir.FunctionType(result, [a.type for a in arguments]))
    return emission.builder.call(function, list(arguments), fastmath=flags)


def overload_name(type_: ir.Type) -> str:
    if isinstance(type_, ir.FloatType):
        return "f32"
    if isinstance(type_, ir.DoubleType):
        return "f64"
    if isinstance(type_, ir.PointerType):
        return "p0"
    return str(type_)


def declare(module: ir.Module, name: str, type_: ir.FunctionType) -> ir.Function:
    """The function of that name in the module, declared on first use."""
    if name in module.globals:
        return module.globals[name]
    return ir.Function(module, type_, name)
