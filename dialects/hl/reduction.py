"""`hl` ops: reduction (in progress)."""
