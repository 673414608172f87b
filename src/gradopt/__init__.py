"""gradopt: an MLIR-style multi-dialect compiler for derivatives."""

__version__ = "0.1.0"
