"""`bwd` ops: control (in progress)."""
