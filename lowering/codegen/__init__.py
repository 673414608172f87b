"""Kernels as source text in the language of kernels (`gradopt.lowering.native.intrinsics`)."""
