"""`--elide-elements-larger`: long dense elements leave only their type behind."""

from __future__ import annotations

from gradopt.ir.attributes import Attribute, DenseElementsAttr, DenseResourceAttr
from gradopt.ir.operation import Operation

__all__ = ["elide_elements"]


def elide_elements(root: Operation, limit: int) -> None:
    """Replaces dense elements of more than `limit` elements, splats excepted, by `dense_resource<__elided__>`.

    The module is good for nothing but printing after that."""
    for op in root.walk():
        op.properties = {name: _elided(value, limit) for name, value in op.properties.items()}
        op.attributes = {name: _elided(value, limit) for name, value in op.attributes.items()}


def _elided(value: Attribute, limit: int) -> Attribute:
    if isinstance(value, DenseElementsAttr) and not value.is_splat and value.type.element_count > limit:
        return DenseResourceAttr("__elided__", value.type)
    return value
