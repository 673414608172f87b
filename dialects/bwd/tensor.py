"""`bwd` ops: tensor (in progress)."""
