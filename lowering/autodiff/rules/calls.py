"""Derivatives of calls: a callee is differentiated once for each combination of wanted arguments and seeded results."""

from __future__ import annotations

from typing import Any

from gradopt.ir.builder import Builder
from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.operation import Operation
from gradopt.ir.symbols import symbol_name
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.context import Context, ForwardContext, ReverseContext, is_float_tensor
from gradopt.lowering.autodiff.custom import custom_derivative, function_type
from gradopt.lowering.autodiff.engine import Derivative
from gradopt.lowering.autodiff.functions import derive_for_call, function_block
from gradopt.lowering.autodiff.helpers import match_type, zeros_like
from gradopt.lowering.autodiff.registry import forward_rule, reverse_rule
from gradopt.lowering.autodiff.split import split_for_call
from gradopt.lowering.tasks import Task


def find_callee(context: Context, op: Any) -> Operation:
    """The called function. Raises GradoptError where there is none, or where it is being differentiated already."""
    name = op.callee.root
    function = context.state.function(name)
    if function is None:
        raise GradoptError.at(op.location, f"'{op.name}' op calls '@{name}', which does not exist")
    return function


def enter(context: Context, op: Any, function: Operation) -> None:
    """Notes that a function is being differentiated. Raises GradoptError for recursion, with the calls on the way."""
    state, name = context.state, symbol_name(function) or ""
    if name in (entry[0] for entry in state.in_progress):
        notes = [(entry[1].location, f"through this call of '@{entry[0]}'") for entry in state.in_progress]
        raise GradoptError.at(op.location, f"'{op.name}' op: '@{name}' calls itself; recursion has no derivative here", notes)
    state.in_progress.append((name, op))


@reverse_rule("func.call", "prim.call")
def call(context: ReverseContext, op: Any, *cotangents: Value | None) -> Task[list[Derivative | None]]:
    """Calls @f_fwd in the forward part and @f_bwd in the reverse part, or the function's own ad.vjp."""
    function = find_callee(context, op)
    own = custom_derivative(context.state, function, "vjp")
    if own is not None:
        return own_reverse(context, op, function, own, cotangents)
    function_block(function, op.location)
    wanted = [index for index in range(len(op.operands)) if context.wants(index)]
    seeds = [None if flag is None else flag.masked for flag in context.flags]
    enter(context, op, function)
    parts = yield split_for_call(context.state, function, wanted, seeds)
    context.state.in_progress.pop()
    forward = context.forward_builder.create(op.name, op.operands, [*op.result_types, *parts.residuals], callee=parts.forward)
    count = len(op.results)
    context.replace_forward(forward.results[:count])
    kinds = [kind for kind in parts.gradients if kind is not None]
    given = [match_type(context.builder, value, result.type) for value, result in zip(cotangents, op.results)
             if value is not None]
    back = context.builder.create(op.name, [*forward.results[count:], *given], [kind[0] for kind in kinds], callee=parts.backward)
    results = iter(zip(back.results, kinds))
    gradients: list[Derivative | None] = [None] * len(op.operands)
    for index, kind in zip(wanted, parts.gradients):
        if kind is not None:
            value, (_, masked) = next(results)
            gradients[index] = Derivative(value, masked)
    return gradients


def own_reverse(context: ReverseContext, op: Any, function: Operation, own: str,
                cotangents: tuple[Value | None, ...]) -> list[Derivative | None]:
    """h(args…, cotangents of all float results…) -> a gradient for each float argument."""
    b = context.builder
    given = [zeros_like(b, result) if value is None else match_type(b, value, result.type)
             for result, value in zip(op.results, cotangents) if is_float_tensor(result.type)]
    types = function_type(context.state.symbols[own]).results
    back = iter(b.create(op.name, [*op.operands, *given], types, callee=own).results)
    return [Derivative(next(back), bool(context.masked)) if is_float_tensor(operand.type) else None for operand in op.operands]


@forward_rule("func.call", "prim.call")
def call_tangents(context: ForwardContext, op: Any, *tangents: Value | None) -> Task[list[Derivative | None]]:
    """Calls the function that computes results and tangents together, or the function's own ad.jvp."""
    function = find_callee(context, op)
    own = custom_derivative(context.state, function, "jvp")
    builder: Builder = context.forward_builder
    builder.location = context.builder.location
    count = len(op.results)
    if own is not None:
        given = [zeros_like(builder, operand) if t is None else match_type(builder, t, operand.type)
                 for operand, t in zip(op.operands, tangents) if is_float_tensor(operand.type)]
        both = builder.create(op.name, [*op.operands, *given], function_type(context.state.symbols[own]).results, callee=own)
        context.replace_forward(both.results[:count])
        found = iter(both.results[count:])
        return [Derivative(next(found), bool(context.masked)) if is_float_tensor(result.type) else None for result in op.results]
    function_block(function, op.location)
    moving = [index for index, t in enumerate(tangents) if t is not None]
    flags = [flag.masked for flag in context.flags if flag is not None]
    enter(context, op, function)
    made = yield derive_for_call(context.state, function, moving, flags)
    context.state.in_progress.pop()
    given = [match_type(builder, t, operand.type) for t, operand in zip(tangents, op.operands) if t is not None]
    types = [*op.result_types, *(kind[0] for kind in made.tangents if kind is not None)]
    both = builder.create(op.name, [*op.operands, *given], types, callee=made.name)
    context.replace_forward(both.results[:count])
    found = iter(both.results[count:])
    return [None if kind is None else Derivative(next(found), kind[1]) for kind in made.tangents]
