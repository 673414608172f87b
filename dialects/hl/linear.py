"""`hl` ops: linear (in progress)."""
