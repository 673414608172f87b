"""`hl` ops of neural networks."""
