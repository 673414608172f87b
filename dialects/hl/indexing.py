"""`hl` ops: indexing (in progress)."""
