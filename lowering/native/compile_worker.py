"""A second process that helps to fill the cache: `python -m gradopt.lowering.native.compile_worker`.

Standard input holds a JSON object {"front_end", "folder", "kernels": [[name, source], …]}.  The helper walks the list in
order and compiles what the cache does not hold yet, while its parent walks it from the other end; they meet somewhere,
and neither does anything twice but perhaps the one kernel where they meet.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from gradopt.lowering.native.compile import fill_cache
from gradopt.lowering.native.errors import KernelError
from gradopt.lowering.native.program import KernelSource


def main() -> int:
    """Fill the cache; what cannot be compiled is left to the parent, which reports it."""
    request = json.load(sys.stdin)
    kernels = [KernelSource(*fields) for fields in request["kernels"]]
    for kernel in kernels:
        try:
            fill_cache(kernel, request["front_end"], Path(request["folder"]))
        except KernelError:
            continue
    return 0


if __name__ == "__main__":
    sys.exit(main())
