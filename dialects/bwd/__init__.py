"""`bwd`: one fused op for the adjoint of one `hl` op. Every op takes the unit attribute `masked`: `dy` may hold lanes that a mask cut
off."""

from gradopt.dialects.bwd import control, neural, tensor
from gradopt.ir.dialect import Dialect, declared_operations

DIALECT = Dialect("bwd", [cls for module in (tensor, *neural.MODULES, control) for cls in declared_operations(vars(module))],
                  __doc__ or "")
