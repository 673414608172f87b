"""`hl` ops: creation (in progress)."""
