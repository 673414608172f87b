"""The body of one function in the language of kernels, to LLVM IR.

The driver and the pool are written in the same language and compiled here, so that running a program needs no numba
at all, and kernels may be: typing a kernel takes numba 20 ms and this front end 2 ms.  The text is parsed with `ast`
and never executed.

Variables become stack slots, which LLVM's first pass turns into registers.  A name keeps one type in a function.
Recursion follows the nesting of the source text alone, which Python's own parser bounds.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from gradopt.lowering.native.errors import KernelError
from gradopt.lowering.native.intrinsics import CONSTANTS
from gradopt.lowering.native.unrolling import MOST_UNROLLED, not_unrolled, number_of_turns
from gradopt.lowering.native.values import (
    BOOLEAN,
    FLOAT64,
    I64,
    INT64,
    Emission,
    Intrinsic,
    Literal,
    Scalar,
    Type,
    common_scalar,
    constant,
    describe,
    expect_count,
    fits,
)
from llvmlite import ir

Value = tuple[Type, ir.Value]

_ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("fadd", "add"),
    ast.Sub: ("fsub", "sub"),
    ast.Mult: ("fmul", "mul"),
}
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
_OPERATORS = (INT64, FLOAT64, Scalar("f32", "f", 32))


@dataclass(frozen=True)
class Function:
    """A function that other functions of the module may call."""

    function: ir.Function
    parameters: tuple[Type, ...]
    result: Scalar


@dataclass
class _Loop:
    """Where `continue` and `break` go, and the most turns that the loops inside make for one of its own."""

    continue_block: ir.Block
    break_block: ir.Block
    turns_inside: float = 1


@dataclass
class FunctionCompiler:
    """Compiles the body of one function."""

    emission: Emission
    result: Scalar
    intrinsics: Mapping[str, Intrinsic]
    functions: Mapping[str, Function]
    lines: Sequence[str]
    constants: Mapping[str, int | float] = field(default_factory=lambda: CONSTANTS)
    variables: dict[str, tuple[Type, ir.Value | None]] = field(default_factory=dict)
    loops: list[_Loop] = field(default_factory=list)

    @property
    def builder(self) -> ir.IRBuilder:
        return self.emission.builder

    def fail(self, node: ast.AST, message: str) -> NoReturn:
        line = getattr(node, "lineno", 1)
        text = self.lines[line - 1].strip() if line <= len(self.lines) else ""
        raise KernelError(f"line {line}: {message}: {text}")

    # -- variables

    def slot(self, type_: ir.Type) -> ir.Value:
        with self.builder.goto_entry_block():
            return self.builder.alloca(type_)

    def assign(self, node: ast.AST, name: str, value: Value) -> None:
        type_, register = value
        if isinstance(type_, Literal):
            type_ = INT64
        known = self.variables.get(name)
        if known is None:
            known = self.variables[name] = (type_, self.slot(type_.llvm))
        if known[0] != type_ or known[1] is None:
            self.fail(node, f"{name} is {describe(known[0])} and cannot become {describe(type_)}")
        self.builder.store(register, known[1])

    def bind_parameter(self, name: str, type_: Type, register: ir.Value) -> None:
        self.variables[name] = (type_, self.slot(type_.llvm))
        self.builder.store(register, self.variables[name][1])

    # -- expressions

    def expression(self, node: ast.expr) -> Value:
        method = getattr(self, "visit_" + type(node).__name__, None)
        if method is None:
            self.fail(node, f"{type(node).__name__} is not part of the language of kernels")
        value: Value = method(node)
        return value

    def boolean(self, node: ast.expr) -> ir.Value:
        type_, register = self.expression(node)
        if type_ != BOOLEAN:
            self.fail(node, f"expected i1, found {describe(type_)}")
        return register

    def integer(self, node: ast.expr) -> ir.Value:
        type_, register = self.expression(node)
        if not fits(type_, INT64):
            self.fail(node, f"expected i64, found {describe(type_)}")
        return register

    def visit_Constant(self, node: ast.Constant) -> Value:
        value = node.value
        if isinstance(value, bool):
            return BOOLEAN, constant(BOOLEAN, int(value))
        if isinstance(value, int):
            if not -(2**63) <= value < 2**64:
                self.fail(node, f"{value} does not fit in 64 bits")
            return Literal(value), ir.Constant(I64, value)
        if isinstance(value, float):
            return FLOAT64, constant(FLOAT64, value)
        self.fail(node, f"a constant of type {type(value).__name__}")

    def visit_Name(self, node: ast.Name) -> Value:
        if node.id in self.variables:
            type_, slot = self.variables[node.id]
            return type_, self.builder.load(slot)
        if node.id in self.constants:
            value = self.constants[node.id]
            if isinstance(value, int):
                return Literal(value), ir.Constant(I64, value)
            return FLOAT64, constant(FLOAT64, value)
        self.fail(node, f"{node.id} is not defined")

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            return BOOLEAN, self.builder.not_(self.boolean(node.operand))
        type_, register = self.expression(node.operand)
        if not isinstance(node.op, ast.USub) or not (isinstance(type_, Literal) or type_ in _OPERATORS):
            self.fail(node, f"{type(node.op).__name__} is not defined on {describe(type_)}")
        if isinstance(type_, Literal):
            return Literal(-type_.value), ir.Constant(I64, -type_.value)
        return type_, self.builder.fneg(register) if type_.llvm != I64 else self.builder.neg(register)

    def operands(self, node: ast.AST, name: str, left: ast.expr, right: ast.expr) -> tuple[Scalar, list[ir.Value]]:
        values = [self.expression(left), self.expression(right)]
        try:
            scalar = common_scalar(name, [type_ for type_, _ in values])
        except KernelError as error:
            self.fail(node, str(error))
        return scalar, [self.fit(value, scalar) for value in values]

    def visit_BinOp(self, node: ast.BinOp) -> Value:
        name = type(node.op).__name__
        scalar, (a, b) = self.operands(node, name, node.left, node.right)
        if isinstance(node.op, ast.Div) and scalar.is_float:
            return scalar, self.builder.fdiv(a, b)
        if type(node.op) not in _ARITHMETIC or scalar not in _OPERATORS:
            self.fail(node, f"the operator {name} is not defined on {scalar.name}; use an intrinsic")
        method = _ARITHMETIC[type(node.op)][0 if scalar.is_float else 1]
        return scalar, getattr(self.builder, method)(a, b)

    def visit_Compare(self, node: ast.Compare) -> Value:
        if len(node.ops) != 1 or type(node.ops[0]) not in _COMPARE:
            self.fail(node, "only a single == != < <= > >= is allowed")
        sign = _COMPARE[type(node.ops[0])]
        scalar, (a, b) = self.operands(node, sign, node.left, node.comparators[0])
        if scalar not in _OPERATORS:
            self.fail(node, f"{sign} is not defined on {scalar.name}; use an intrinsic")
        if not scalar.is_float:
            return BOOLEAN, self.builder.icmp_signed(sign, a, b)
        compare = self.builder.fcmp_unordered if sign == "!=" else self.builder.fcmp_ordered
        return BOOLEAN, compare(sign, a, b)

    def visit_BoolOp(self, node: ast.BoolOp) -> Value:
        """Short-circuit, as in Python."""
        slot, end = self.slot(BOOLEAN.llvm), self.builder.append_basic_block("decided")
        for position, operand in enumerate(node.values):
            value = self.boolean(operand)
            self.builder.store(value, slot)
            if position == len(node.values) - 1:
                self.builder.branch(end)
                break
            following = self.builder.append_basic_block("otherwise")
            if isinstance(node.op, ast.And):
                self.builder.cbranch(value, following, end)
            else:
                self.builder.cbranch(value, end, following)
            self.builder.position_at_end(following)
        self.builder.position_at_end(end)
        return BOOLEAN, self.builder.load(slot)

    def fit(self, value: Value, parameter: Type) -> ir.Value:
        """The register for a parameter: an integer literal takes the parameter's type."""
        type_, register = value
        if isinstance(type_, Literal) and isinstance(parameter, Scalar):
            return constant(parameter, type_.value)
        return register

    def visit_Call(self, node: ast.Call) -> Value:
        result = self.call(node)
        if result is None:
            self.fail(node, "this call gives nothing")
        return result

    def call(self, node: ast.Call) -> Value | None:
        if not isinstance(node.func, ast.Name) or node.keywords:
            self.fail(node, "only calls of a name with positional arguments are allowed")
        name, values = node.func.id, [self.expression(argument) for argument in node.args]
        types = [type_ for type_, _ in values]
        try:
            if name in self.functions:
                return self.call_function(name, self.functions[name], values)
            if name not in self.intrinsics:
                raise KernelError(f"{name} is not an intrinsic")
            intrinsic = self.intrinsics[name]
            signature = intrinsic.infer(types)
            self.check_arguments(name, types, signature.parameters)
        except KernelError as error:
            self.fail(node, str(error))
        registers = [self.fit(value, parameter) for value, parameter in zip(values, signature.parameters, strict=True)]
        result = intrinsic.emit(self.emission, signature, registers)
        return None if signature.result is None or result is None else (signature.result, result)

    def check_arguments(self, name: str, types: Sequence[Type], parameters: Sequence[Type]) -> None:
        expect_count(name, types, len(parameters))
        for position, (found, expected) in enumerate(zip(types, parameters, strict=True)):
            if not fits(found, expected):
                raise KernelError(f"{name}: argument {position} must be {describe(expected)}, found {describe(found)}")

    def call_function(self, name: str, function: Function, values: Sequence[Value]) -> Value:
        self.check_arguments(name, [type_ for type_, _ in values], function.parameters)
        registers = [self.fit(value, parameter) for value, parameter in zip(values, function.parameters, strict=True)]
        return function.result, self.builder.call(function.function, registers)

    # -- statements

    def block(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            if self.builder.block.is_terminated:
                return
            method: Callable[[ast.stmt], None] | None = getattr(self, "visit_" + type(statement).__name__, None)
            if method is None:
                self.fail(statement, f"{type(statement).__name__} is not part of the language of kernels")
            method(statement)

    def branch_unless_done(self, target: ir.Block) -> None:
        if not self.builder.block.is_terminated:
            self.builder.branch(target)

    def visit_Assign(self, node: ast.Assign) -> None:
        if len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
            self.fail(node, "only `name = expression` is allowed")
        self.assign(node, node.targets[0].id, self.expression(node.value))

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if not isinstance(node.target, ast.Name):
            self.fail(node, "only a name may be changed")
        read = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
        value = self.visit_BinOp(ast.copy_location(ast.BinOp(read, node.op, node.value), node))
        self.assign(node, node.target.id, value)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self.call(node.value)
        elif not isinstance(node.value, ast.Constant) or not isinstance(node.value.value, str):
            self.fail(node, "an expression that does nothing")

    def visit_Pass(self, node: ast.Pass) -> None:
        pass

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            self.fail(node, f"expected a value of type {self.result.name}")
        value = self.expression(node.value)
        if not fits(value[0], self.result):
            self.fail(node, f"expected {self.result.name}, found {describe(value[0])}")
        self.builder.ret(self.fit(value, self.result))

    def visit_If(self, node: ast.If) -> None:
        then, end = self.builder.append_basic_block("then"), self.builder.append_basic_block("end_if")
        otherwise = self.builder.append_basic_block("else") if node.orelse else end
        self.builder.cbranch(self.boolean(node.test), then, otherwise)
        self.builder.position_at_end(then)
        self.block(node.body)
        self.branch_unless_done(end)
        if node.orelse:
            self.builder.position_at_end(otherwise)
            self.block(node.orelse)
            self.branch_unless_done(end)
        self.builder.position_at_end(end)

    def visit_While(self, node: ast.While) -> None:
        if node.orelse:
            self.fail(node, "while … else")
        header, body, end = (self.builder.append_basic_block(name) for name in ("while", "body", "end_while"))
        self.builder.branch(header)
        self.builder.position_at_end(header)
        self.builder.cbranch(self.boolean(node.test), body, end)
        self.builder.position_at_end(body)
        self.loop_body(node.body, _Loop(header, end))
        self.builder.position_at_end(end)

    def loop_body(self, statements: Sequence[ast.stmt], loop: _Loop) -> None:
        self.loops.append(loop)
        self.block(statements)
        self.loops.pop()
        self.branch_unless_done(loop.continue_block)

    def visit_For(self, node: ast.For) -> None:
        start, stop, step = self.range_bounds(node)
        assert isinstance(node.target, ast.Name)
        builder, counter = self.builder, self.slot(I64)
        builder.store(start, counter)
        header, body, latch, end = (builder.append_basic_block(name) for name in ("for", "body", "next", "end_for"))
        builder.branch(header)
        builder.position_at_end(header)
        builder.cbranch(builder.icmp_signed("<", builder.load(counter), stop), body, end)
        builder.position_at_end(body)
        self.assign(node, node.target.id, (INT64, builder.load(counter)))
        loop = _Loop(latch, end)
        self.loop_body(node.body, loop)
        builder.position_at_end(latch)
        builder.store(builder.add(builder.load(counter), ir.Constant(I64, step), flags=("nsw",)), counter)
        back = builder.branch(header)
        turns = number_of_turns(start, stop, step) * loop.turns_inside
        if turns > MOST_UNROLLED and loop.turns_inside > 1:
            back.set_metadata("llvm.loop", not_unrolled(builder.module))
        if self.loops:
            self.loops[-1].turns_inside = max(self.loops[-1].turns_inside, turns)
        builder.position_at_end(end)

    def range_bounds(self, node: ast.For) -> tuple[ir.Value, ir.Value, int]:
        call = node.iter
        if node.orelse or not isinstance(node.target, ast.Name) or not isinstance(call, ast.Call):
            self.fail(node, "only `for name in range(…)` is allowed")
        if not isinstance(call.func, ast.Name) or call.func.id != "range" or call.keywords or not 1 <= len(call.args) <= 3:
            self.fail(node, "only `for name in range(…)` is allowed")
        step: ast.expr = call.args[2] if len(call.args) == 3 else ast.Constant(1)
        if not isinstance(step, ast.Constant) or not isinstance(step.value, int) or step.value < 1:
            self.fail(node, "the step of a range must be a positive integer")
        start = self.integer(call.args[0]) if len(call.args) > 1 else ir.Constant(I64, 0)
        return start, self.integer(call.args[min(1, len(call.args) - 1)]), step.value

    def visit_Break(self, node: ast.Break) -> None:
        self.leave(node, "break_block")

    def visit_Continue(self, node: ast.Continue) -> None:
        self.leave(node, "continue_block")

    def leave(self, node: ast.stmt, where: str) -> None:
        if not self.loops:
            self.fail(node, "outside a loop")
        self.builder.branch(getattr(self.loops[-1], where))
