"""`hl` indexing (the lead writes this file and lowering/decompose/rules/tensor_indexing.py now, 02:28)."""
