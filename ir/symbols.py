"""Symbols: operations with a `sym_name` in the body of a symbol table (a module)."""

from __future__ import annotations

from gradopt.ir.attribute_kinds import enumeration
from gradopt.ir.attributes import StringAttr, SymbolRefAttr
from gradopt.ir.declare import SYMBOL_TABLE
from gradopt.ir.operation import Operation

__all__ = ["VISIBILITY", "lookup_symbol", "nearest_symbol_table", "symbol_name", "symbols", "unique_symbol"]

VISIBILITY = enumeration("public", "private", "nested")


def symbol_name(op: Operation) -> str | None:
    """The op's symbol, if it has one."""
    name = op.properties.get("sym_name") or op.attributes.get("sym_name")
    return name.value if isinstance(name, StringAttr) else None


def symbols(table: Operation) -> dict[str, Operation]:
    """The symbols directly in a symbol table, by name; the first of a repeated name."""
    found: dict[str, Operation] = {}
    for region in table.regions:
        for block in region.blocks:
            for op in block.operations:
                name = symbol_name(op)
                if name is not None:
                    found.setdefault(name, op)
    return found


def nearest_symbol_table(op: Operation) -> Operation | None:
    """The closest operation around `op` (or `op` itself) that holds symbols."""
    table: Operation | None = op
    while table is not None and not table.has_trait(SYMBOL_TABLE):
        table = table.parent_op
    return table


def lookup_symbol(origin: Operation, reference: SymbolRefAttr | str) -> Operation | None:
    """The operation that a reference names, seen from `origin`: outer tables are searched until the root is found."""
    root, nested = (reference, ()) if isinstance(reference, str) else (reference.root, reference.nested)
    table = nearest_symbol_table(origin)
    while table is not None:
        found = symbols(table).get(root)
        if found is not None:
            for part in nested:
                found = symbols(found).get(part) if found is not None else None
            return found
        table = nearest_symbol_table(table.parent_op) if table.parent_op is not None else None
    return None


def unique_symbol(table: Operation, name: str) -> str:
    """`name`, or `name_1`, `name_2` … where it is taken."""
    taken = symbols(table)
    candidate, number = name, 0
    while candidate in taken:
        number += 1
        candidate = f"{name}_{number}"
    return candidate
