"""What a function must be to become machine code; errors that name the place, before any pass relies on it."""

from __future__ import annotations

from gradopt.ir.diagnostics import Diagnostic, GradoptError
from gradopt.ir.operation import Block, Operation, Region, UnregisteredOp
from gradopt.ir.sizes import UNKNOWN
from gradopt.ir.types import TensorType
from gradopt.ir.values import Value

__all__ = ["check_elements", "check_operation", "check_sizes", "only_block", "unknown_sizes"]


def only_block(op: Operation, region: Region) -> Block:
    """The block of a region. Raises GradoptError where there are none or several."""
    if len(region.blocks) != 1:
        raise GradoptError.at(op.location, f"'{op.name}' op has a region of {len(region.blocks)} blocks, expected 1")
    return region.block


def check_operation(op: Operation) -> None:
    """Raises GradoptError for an operation of no registered dialect."""
    if isinstance(op, UnregisteredOp):
        raise GradoptError.at(op.location, f"'{op.name}' op belongs to no registered dialect, so it has no kernel")


def check_elements(function: Operation) -> None:
    """Raises GradoptError for tensors whose element type no kernel computes in: f8, i4, complex numbers and the like."""
    for op in function.walk():
        values: list[Value] = [*op.results, *(argument for region in op.regions for block in region.blocks
                                              for argument in block.arguments)]
        for value in values:
            if isinstance(value.type, TensorType):
                check_element(op, value.type)


def check_element(op: Operation, type: TensorType) -> None:
    """Raises GradoptError for an element type that no kernel computes in."""
    from gradopt.lowering.native.elements import ELEMENTS

    if type.element.text not in ELEMENTS:
        raise GradoptError.at(op.location, f"'{op.name}' op has a value of type {type.text}: compiled functions take elements of "
                                           f"{', '.join(ELEMENTS)}")


def unknown_sizes(function: Operation) -> list[Diagnostic]:
    """An error for each operation with a result whose size no shape of an argument gives."""
    found = [(op, result) for op in function.walk() for result in op.results
             if isinstance(result.type, TensorType) and UNKNOWN in result.type.dims]
    errors = [Diagnostic(op.location, f"'{op.name}' op has a result of type {result.type.text}, whose size follows from the elements of a "
                                      "tensor: compiled functions take every size from the shapes of their arguments")
              for op, result in found]
    for op, _ in found:
        if op.name == "prim.while" and op.max_trip_count is None:  # type: ignore[attr-defined]
            errors[0].note(op.location, "this loop keeps a value for each of its trips; with a 'max_trip_count' that is a fixed size")
            break
    return errors


def check_sizes(kernels: Operation, errors: list[Diagnostic]) -> None:
    """Raises GradoptError with `errors` (what `unknown_sizes` said before fusion) where a kernel has a result of unknown size: memory is
    planned before any element is read."""
    if errors and unknown_sizes(kernels):
        raise GradoptError(errors[:1])
