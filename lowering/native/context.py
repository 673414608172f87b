"""The words of a kernel's context, of a status record, and the table of library routines: the binary interface of
kernels.

A kernel is `int32 kernel(int64 lo, int64 hi, int64* context)`.  All words are int64.
"""

from __future__ import annotations

OPERANDS = 0
"""Address of this instruction's operand table: one address a slot."""
PARAMETERS = 1
"""Address of this instruction's parameter table: one int64 a parameter."""
ROUTINES = 2
"""Address of the table of library routines (ROUTINE_NAMES)."""
SCRATCH = 3
"""Address of this thread's scratch memory, aligned to 64 bytes."""
SCRATCH_SIZE = 4
CHUNK = 5
"""Number of this chunk."""
STATUS = 6
"""Address of the status record of this chunk."""
CONTEXT_WORDS = 8

STATUS_SET, STATUS_CHECK, STATUS_VALUE, STATUS_POSITION, STATUS_IS_FLOAT, STATUS_CHUNK = range(6)
STATUS_WORDS = 8

BLAS_NAMES = ("sgemm", "dgemm", "sgemv", "dgemv", "ssyrk", "dsyrk", "strsm", "dtrsm")
"""Called through the C interface, row-major."""
LAPACK_NAMES = ("spotrf", "dpotrf", "sgetrf", "dgetrf", "sgetrs", "dgetrs", "sgetri", "dgetri")
"""Called through the Fortran interface, column-major."""
PRODUCT_HEIGHTS = range(4, 17)
PRODUCT_NAMES = tuple(f"{kind}product{height}" for kind in "sd" for height in PRODUCT_HEIGHTS)
"""Our own products (product.py): kernels with a context of their own."""
ROUTINE_NAMES = BLAS_NAMES + LAPACK_NAMES + PRODUCT_NAMES
