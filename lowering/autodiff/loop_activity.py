"""Activity inside a loop: which carries vary and which matter, as fixpoints over one body."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gradopt.ir.operation import Block
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.activity import useful_values, varied_values
from gradopt.lowering.autodiff.context import is_float_tensor

__all__ = ["active_carries", "varied_arguments"]


def varied_arguments(block: Block, moving: Collection[int], num_carry: int, first: int = 0) -> set[int]:
    """The arguments that depend on the arguments `moving` in any iteration. Carry j is argument first + j and yielded at j."""
    assert block.last is not None
    yields = block.last.operands
    found = {index for index in moving if is_float_tensor(block.arguments[index].type)}
    while True:
        varied = varied_values(block, [block.arguments[index] for index in found])
        new = {first + j for j in range(num_carry) if yields[j] in varied} - found
        if not new:
            return found
        found |= new


def active_carries(block: Block, wanted: Collection[int], seeded: Collection[int], num_carry: int,
                   first: int = 0) -> list[int]:
    """The carries that need a cotangent in the reverse loop: they depend on a wanted argument, and a seeded yield depends on
    them."""
    assert block.last is not None
    yields: Sequence[Value] = block.last.operands
    moving = varied_arguments(block, wanted, num_carry, first)
    varied = varied_values(block, [block.arguments[index] for index in moving])
    outputs = set(seeded)
    while True:
        useful = useful_values(block, varied, [yields[index] for index in outputs])
        new = {j for j in range(num_carry) if block.arguments[first + j] in useful and j not in outputs}
        if not new:
            break
        outputs |= new
    return [j for j in range(num_carry) if j in outputs and first + j in moving]
