"""A second process that helps to fill the cache: `python -m gradopt.lowering.native.compile_worker` (started by compile_helper.py).

Each line of standard input is a JSON object {"front_end", "folder", "kernel": [name, source, vectorise]}. The helper compiles the
kernel into the cache unless it is there, and answers with a line.
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

from gradopt.lowering.native.compile import fill_cache
from gradopt.lowering.native.errors import KernelError
from gradopt.lowering.native.program import KernelSource


def main() -> int:
    """Fill the cache; what cannot be compiled is left to the parent, which reports it."""
    for line in sys.stdin:
        request = json.loads(line)
        with contextlib.suppress(KernelError):
            fill_cache(KernelSource(*request["kernel"]), request["front_end"], Path(request["folder"]))
        sys.stdout.write("\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
