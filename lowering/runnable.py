"""What a function must be to become machine code; errors that name the place, before any pass relies on it."""

from __future__ import annotations

from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.operation import Block, Operation, Region, UnregisteredOp
from gradopt.ir.types import TensorType
from gradopt.ir.values import Value

__all__ = ["check_elements", "check_operation", "only_block"]


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
