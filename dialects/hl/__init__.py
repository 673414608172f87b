"""`hl`: what a user writes. Elementwise ops broadcast as NumPy does, axes may be negative, element types are never promoted."""

from gradopt.dialects.hl import axis, control, creation, elementwise, indexing, linear, neural, reduction, shape, slices
from gradopt.ir.dialect import Dialect, declared_operations

DIALECT = Dialect("hl", [cls for module in (elementwise, creation, reduction, axis, shape, slices, indexing, linear,
                                            *neural.MODULES, control)
                         for cls in declared_operations(vars(module))], __doc__ or "")
