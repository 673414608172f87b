"""`hl` ops: shape (in progress)."""
