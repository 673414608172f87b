"""The native back end: kernels in, machine code and a driver that runs them out.

It knows nothing of the IR.  `program.py` is the interface (plain data), `intrinsics.py` the language in which kernels
are written, `executable.py` what a caller gets.  Nothing heavy is imported here.
"""
