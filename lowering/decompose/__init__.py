"""`hl` and `bwd` to `prim`: a table of rules, one an operation."""
