"""`gradopt --help-op=NAME` says of each operation what it computes, takes, gives, is made of, and where it comes from."""

from __future__ import annotations

import re

import pytest
from gradopt.dialects.attribute_notes import attribute_note
from gradopt.dialects.origins import origins_of
from gradopt.ir.dialect import dialect_names, find_dialect, operation_class
from gradopt.lowering.decompose.registry import find_decomposition
from gradopt.tools.information import help_op

NAMES = [name for dialect in dialect_names() for name in getattr(find_dialect(dialect), "operations", ())]
# without a formula to be had: their meaning is what is around them, or MLIR's
PLAIN_ATTRIBUTES = ("builtin", "func", "kernel")


@pytest.mark.parametrize("name", NAMES)
def test_help(name: str) -> None:
    cls = operation_class(name)
    assert cls is not None
    text, definition = help_op(name), cls.definition
    signature, _, rest = text.partition("\n")
    assert signature.startswith(f"{name}(") and "(no description)" not in text
    for field in (*definition.operands, *definition.results, *definition.attributes.values()):
        assert field.name in signature and re.search(rf"^  {re.escape(field.name)}[?…]? ", rest, re.MULTILINE), field.name
    assert not [line for line in rest.split("\n") if len(line) > 140 and not line.startswith(("Decomposition", "Derivative", "Elsewhere"))]
    assert all(origin in text for origin in origins_of(name))
    rule = find_decomposition(name)
    assert rule is None or not rule.__doc__ or "Decomposition: " in text
    if name.split(".")[0] not in PLAIN_ATTRIBUTES:
        unexplained = [field.name for field in definition.attributes.values() if not attribute_note(field, name.split(".")[0])
                       and not re.search(rf"\b{field.name}\b", definition.documentation)]
        assert not unexplained, f"neither the docstring of {name} nor a note says what {unexplained} mean"


def test_help_of_take() -> None:
    text = help_op("hl.take")
    for part in ("x.shape[:axis] + indices.shape + x.shape[axis+1:]", "an integer tensor", "modulo the size (wrap)", "prim.gather",
                 "relax.take (TVM Relax)"):
        assert part in text
