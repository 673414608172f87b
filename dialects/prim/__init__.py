"""`prim`: the small closed dialect that everything is lowered to. Shapes never broadcast; axes are not negative.

The NumPy meaning of these ops (`evaluate`) is the specification: the interpreter runs it, constant folding uses it, and every
kernel is tested against it. 16-bit floats compute as f32 and round once an op; sums of them accumulate in f32.
"""

from gradopt.dialects.prim import control, data, elementwise, indexing, linear, reduction, shape
from gradopt.ir.dialect import Dialect, declared_operations

DIALECT = Dialect("prim", [cls for module in (elementwise, data, reduction, shape, indexing, linear, control)
                           for cls in declared_operations(vars(module))], __doc__ or "")
