"""`hl` ops: elementwise (in progress)."""
