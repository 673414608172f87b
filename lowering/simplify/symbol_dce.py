"""`symbol-dce`: removes private functions that nothing refers to. See `SymbolDcePass`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gradopt.ir.attributes import ArrayAttr, Attribute, DictionaryAttr, StringAttr, SymbolRefAttr
from gradopt.ir.declare import SYMBOL, SYMBOL_TABLE
from gradopt.ir.operation import Operation
from gradopt.ir.symbols import symbol_name, symbols
from gradopt.lowering.passes import Pass, PassContext

__all__ = ["SymbolDcePass", "referenced_symbols"]


@dataclass(frozen=True)
class SymbolDcePass(Pass):
    """Removes private symbols that no public one refers to, directly or through other private ones.

    Needs: nothing. Guarantees: every private symbol is referred to.

    Before:

        func.func @f(%x: tensor<f32>) -> tensor<f32> {
          return %x : tensor<f32>
        }
        func.func private @helper(%x: tensor<f32>) -> tensor<f32> {
          return %x : tensor<f32>
        }

    After:

        func.func @f(%x: tensor<f32>) -> tensor<f32> {
          return %x : tensor<f32>
        }
    """

    name: ClassVar[str] = "symbol-dce"
    anchor: ClassVar[str | None] = "builtin.module"

    def run(self, op: Operation, context: PassContext) -> None:
        """Marks from the public symbols of each symbol table, then sweeps."""
        tables = [table for table in op.walk() if SYMBOL_TABLE in table.definition.traits]
        for table in reversed(tables):  # inner tables first
            removed = remove_unreferenced(table)
            if removed:
                context.count("symbols removed", removed)


def referenced_symbols(op: Operation) -> set[str]:
    """The root names of all symbols that `op` and the ops inside it refer to."""
    found: set[str] = set()
    seen: set[Attribute] = set()
    for inner in op.walk():
        pending = [*inner.properties.values(), *inner.attributes.values()]
        while pending:
            attribute = pending.pop()
            if isinstance(attribute, SymbolRefAttr):
                found.add(attribute.root)
            elif isinstance(attribute, (ArrayAttr, DictionaryAttr)) and attribute not in seen:
                seen.add(attribute)
                pending += attribute.elements if isinstance(attribute, ArrayAttr) else [value for _, value in attribute.entries]
    return found


def is_private(op: Operation) -> bool:
    """True for a symbol that only its own table may refer to."""
    visibility = op.attribute("sym_visibility")
    return isinstance(visibility, StringAttr) and visibility.value in ("private", "nested")


def remove_unreferenced(table: Operation) -> int:
    """Erases the unreferenced private symbols directly in `table`. Returns how many."""
    known = symbols(table)
    kept = {name for name, op in known.items() if not is_private(op)}
    roots = [op for region in table.regions for block in region.blocks for op in block.operations
             if symbol_name(op) in kept or symbol_name(op) is None]
    pending = [name for root in roots for name in referenced_symbols(root)]
    while pending:
        name = pending.pop()
        if name in known and name not in kept:
            kept.add(name)
            pending += referenced_symbols(known[name])
    removed = 0
    for name, op in known.items():
        if name not in kept and (op.has_trait(SYMBOL) or op.has_trait(SYMBOL_TABLE)):
            op.erase()
            removed += 1
    return removed
