"""The derivative of a whole function, in each mode, as a new function. Signatures: the table of `ad` ops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradopt.dialects.constraints import tensor_type
from gradopt.ir.attributes import StringAttr, TypeAttr
from gradopt.ir.builder import Builder
from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.locations import AnyLocation, fuse
from gradopt.ir.operation import Block, Operation
from gradopt.ir.symbols import symbol_name
from gradopt.ir.types import FunctionType, Type
from gradopt.ir.values import BlockArgument, Value
from gradopt.lowering.autodiff.cleanup import remove_dead
from gradopt.lowering.autodiff.context import is_float_tensor
from gradopt.lowering.autodiff.engine import PASS_NAME, Derivative, forward_block, reverse_block
from gradopt.lowering.autodiff.helpers import full_like, match_type, zeros_like
from gradopt.lowering.autodiff.state import State
from gradopt.lowering.tasks import Task

__all__ = ["MODES", "derive_for_call", "derive_function", "function_block", "has_implicit_seed", "resolve_wrt"]

MODES = ("grad", "value_and_grad", "vjp", "jvp", "hvp")


@dataclass
class Frame:
    """A function that is being rewritten into a derivative: the clone, its block, and the values that it returned at first."""

    function: Operation
    block: Block
    arguments: list[BlockArgument]
    terminator: Operation

    @property
    def results(self) -> list[Value]:
        """What the terminator passes on now."""
        return list(self.terminator.operands)


def function_block(function: Operation, location: AnyLocation, wanted: str = "derivative") -> Block:
    """The body of a function, of which something is `wanted`. Raises GradoptError for a declaration and for several blocks."""
    name = symbol_name(function)
    if not function.regions or not function.regions[0].blocks:
        raise GradoptError.at(location, f"function '@{name}' has no body, so it has no {wanted}",
                              [(function.location, f"'@{name}' is declared here")])
    if len(function.regions[0].blocks) != 1:
        raise GradoptError.at(location, f"function '@{name}' has {len(function.regions[0].blocks)} blocks, expected 1")
    return function.regions[0].block


def result_types(function: Operation) -> list[object]:
    """The types of a function's results."""
    terminator = function.regions[0].block.last
    assert terminator is not None
    return [value.type for value in terminator.operands]


def has_implicit_seed(types: Sequence[object]) -> bool:
    """True where the only result is a rank-0 float, whose cotangent is 1."""
    return len(types) == 1 and is_float_tensor(types[0]) and not types[0].rank  # type: ignore[arg-type, attr-defined]


def resolve_wrt(function: Operation, wrt: Sequence[int | str] | None, location: AnyLocation) -> list[int]:
    """Argument positions, from positions or names; all float arguments for None. Raises GradoptError."""
    arguments = function_block(function, location).arguments
    name = symbol_name(function)
    if wrt is None:
        return [argument.index for argument in arguments if is_float_tensor(argument.type)]
    names = {argument.name: argument.index for argument in arguments if argument.name}
    found: list[int] = []
    for entry in wrt:
        if isinstance(entry, str) and entry.lstrip("%") not in names:
            raise GradoptError.at(location, f"wrt names '{entry}', but the arguments of '@{name}' are "
                                  + (", ".join(f"'%{known}'" for known in names) or "unnamed"))
        index = names[entry.lstrip("%")] if isinstance(entry, str) else entry
        said = f"wrt names '{entry}'" if isinstance(entry, str) else f"wrt is {entry}"
        if not 0 <= index < len(arguments):
            raise GradoptError.at(location, f"{said}, but '@{name}' has {len(arguments)} argument"
                                  f"{'' if len(arguments) == 1 else 's'}")
        if not is_float_tensor(arguments[index].type):
            raise GradoptError.at(location, f"{said}, but that argument of '@{name}' is {arguments[index].type.text}, "
                                  "expected a float tensor")
        if index in found:
            raise GradoptError.at(location, f"wrt names argument {index} of '@{name}' twice")
        found.append(index)
    return found


def open_function(function: Operation, as_call: bool = False) -> Frame:
    """A detached clone of a function, ready to be rewritten. `as_call`: its body is a call of it, if it has a derivative of its
    own, so that this derivative is used."""
    copy = function.clone()
    copy.attributes = {name: value for name, value in copy.attributes.items() if name not in ("ad.vjp", "ad.jvp")}
    # attributes of arguments and results belong to the old signature
    copy.properties = {name: value for name, value in copy.properties.items() if name not in ("arg_attrs", "res_attrs")}
    block = copy.regions[0].block
    assert block.last is not None
    frame = Frame(copy, block, list(block.arguments), block.last)
    if as_call and ("ad.vjp" in function.attributes or "ad.jvp" in function.attributes):
        _call_instead(frame, function)
    return frame


def _call_instead(frame: Frame, function: Operation) -> None:
    """Replaces the body by a call of the function itself."""
    builder = Builder(before=frame.block.first, location=function.location)
    types = [value.type for value in frame.terminator.operands]
    call = builder.create("func.call", frame.arguments, types, callee=symbol_name(function))
    frame.terminator.operands = call.results
    remove_dead(frame.block)


def close_function(state: State, frame: Frame, values: Sequence[Value], name: str, origin: Operation,
                   private: bool = False) -> Operation:
    """Makes the frame's function return `values`, cleans it, and adds it to the module."""
    frame.terminator.operands = tuple(values)
    frame.function.properties = {**frame.function.properties, "function_type": TypeAttr(FunctionType(
        tuple(argument.type for argument in frame.block.arguments), tuple(value.type for value in values)))}
    if private:
        frame.function.properties["sym_visibility"] = StringAttr("private")
    remove_dead(frame.block, state)
    frame.function.location = fuse(origin.location, PASS_NAME)
    state.add_function(frame.function, name, origin)
    return frame.function


def add_cotangent_arguments(frame: Frame) -> list[Derivative | None]:
    """One argument for each float result; its lanes may be masked by whoever calls."""
    return [Derivative(frame.block.add_argument(value.type, f"d_{value.name}" if value.name else None), True)
            if is_float_tensor(value.type) else None for value in frame.results]


def gradients_of(frame: Frame, wrt: Sequence[int], found: Sequence[Derivative | None]) -> list[Value]:
    """One gradient for each wanted argument, of its type; zeros where it is structurally zero."""
    builder = Builder(before=frame.terminator, location=fuse(frame.function.location, PASS_NAME))
    gradients = []
    for index, gradient in zip(wrt, found):
        argument = frame.arguments[index]
        value = zeros_like(builder, argument) if gradient is None else gradient.value
        gradients.append(match_type(builder, value, argument.type))
    return gradients


def reverse_part(state: State, frame: Frame, mode: str, wrt: Sequence[int]) -> Task[list[Value]]:
    """Appends the reverse sweep to a frame; the gradients of `wrt`."""
    results = frame.results
    if mode != "vjp" and has_implicit_seed([value.type for value in results]):
        builder = Builder(before=frame.terminator, location=fuse(frame.function.location, PASS_NAME))
        seeds: list[Derivative | None] = [Derivative(full_like(builder, results[0], 1), False)]
    else:
        seeds = add_cotangent_arguments(frame)
    found = yield reverse_block(state, frame.block, [frame.arguments[index] for index in wrt], seeds)
    return gradients_of(frame, wrt, found)


def forward_part(state: State, frame: Frame, wrt: Sequence[int], directions: Sequence[Value]) -> Task[list[Value | None]]:
    """The tangent of everything that the frame returns now (None: not a float; zeros where it does not depend on `wrt`)."""
    tangents = [Derivative(direction, True) for direction in directions]
    found = yield forward_block(state, frame.block, [frame.arguments[index] for index in wrt], tangents)
    builder = Builder(before=frame.terminator, location=fuse(frame.function.location, PASS_NAME))
    return [None if not is_float_tensor(value.type) else zeros_like(builder, value) if tangent is None
            else match_type(builder, tangent.value, value.type) for value, tangent in zip(frame.results, found)]


def add_direction_arguments(frame: Frame, wrt: Sequence[int]) -> list[Value]:
    """One argument for the direction of each wanted argument."""
    named = [(frame.arguments[index], frame.arguments[index].name) for index in wrt]
    return [frame.block.add_argument(argument.type, f"t_{name}" if name else None) for argument, name in named]


def derive_function(state: State, function: Operation, mode: str, wrt: Sequence[int], name: str,
                    private: bool = False) -> Task[Operation]:
    """A new function, the derivative of `function` in a mode with respect to the arguments `wrt`, added to the module.

    grad(args…, cotangents…) -> gradients…; value_and_grad and vjp: results…, gradients…;
    jvp(args…, tangents…) -> results…, tangents…; hvp(args…, directions…, cotangents…) -> results…, gradients…, products…."""
    frame = open_function(function, as_call=True)
    if mode == "jvp":
        directions = add_direction_arguments(frame, wrt)
        tangents = yield forward_part(state, frame, wrt, directions)
        return close_function(state, frame, [*frame.results, *(t for t in tangents if t is not None)], name, function,
                              private)
    directions = add_direction_arguments(frame, wrt) if mode == "hvp" else []
    gradients = yield reverse_part(state, frame, mode, wrt)
    results = frame.results
    if mode == "hvp":
        frame.terminator.operands = (*results, *gradients)
        remove_dead(frame.block, state)
        tangents = yield forward_part(state, frame, wrt, directions)
        products = tangents[len(results):]
        return close_function(state, frame, [*frame.results, *(t for t in products if t is not None)], name, function,
                              private)
    return close_function(state, frame, gradients if mode == "grad" else [*results, *gradients], name, function, private)


@dataclass(frozen=True)
class ForwardFunction:
    """A function (args…, tangents…) -> results…, tangents…; for each result its tangent's type and whether it may hold masked
    lanes (None: it is structurally zero and not returned)."""

    name: str
    tangents: tuple[tuple[Type, bool] | None, ...]


def derive_for_call(state: State, function: Operation, moving: Sequence[int], flags: Sequence[bool]) -> Task[ForwardFunction]:
    """The private forward derivative for calls where the arguments `moving` have tangents, made once."""
    key = ("forward", symbol_name(function), tuple(moving), tuple(flags))
    if key not in state.made:
        frame = open_function(function)
        tangents = [Derivative(frame.block.add_argument(frame.arguments[index].type), masked)
                    for index, masked in zip(moving, flags)]
        found = yield forward_block(state, frame.block, [frame.arguments[index] for index in moving], tangents)
        values = [*frame.results, *(tangent.value for tangent in found if tangent is not None)]
        made = close_function(state, frame, values, f"{symbol_name(function)}_tangents", function, private=True)
        kinds = tuple(None if tangent is None else (tangent.value.type, tangent.masked) for tangent in found)
        state.made[key] = ForwardFunction(symbol_name(made) or "", kinds)
    result: ForwardFunction = state.made[key]
    return result


def check_seedable(function: Operation, mode: str, location: AnyLocation) -> None:
    """Raises GradoptError where a function returns no float, so that there is nothing to differentiate."""
    block = function_block(function, location)
    assert block.last is not None
    if not any(is_float_tensor(value.type) for value in block.last.operands):
        types = ", ".join(tensor_type(value).text for value in block.last.operands) or "nothing"
        raise GradoptError.at(location, f"function '@{symbol_name(function)}' returns {types}, expected a float tensor to "
                              f"differentiate (mode {mode})")
