"""`bwd` ops of neural networks."""
