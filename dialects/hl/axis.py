"""`hl` ops: axis (in progress)."""
