"""The dialects. Importing this package only says where each is found; a dialect is imported when one of its ops is met."""

from gradopt.ir.dialect import register_dialect

for _name in ("builtin", "func", "ad", "hl", "bwd", "prim", "kernel"):
    register_dialect(_name, f"gradopt.dialects.{_name}:DIALECT")
