"""`make demo`: the stages of one small file, a check of its gradient, then a network trained on handwritten digits and a picture of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE = "examples/layer.ir"
STAGES = (
    ("The program (dialect hl)", "gradopt", []),
    ("autodiff: the gradient with respect to the weights (hl, bwd and prim)", "gradopt", ["--pass=autodiff{func=loss wrt=w},cse,dce"]),
    ("decompose: prim only", "gradopt", ["--pass=autodiff{func=loss wrt=w},decompose,canonicalize,cse,dce"]),
    ("fuse: kernels", "gradopt", ["--pass=decompose,canonicalize,cse,dce,fuse"]),
    ("The source of the kernels that are compiled", "gradopt", ["--emit=numba"]),
    ("The gradient against central differences", "gradopt-run", ["--arg=random", "--check-grad"]),
)


def main() -> int:
    """Runs everything; gives the exit status of what failed, or of the training."""
    from gradopt.tools.gradopt import main as gradopt
    from gradopt.tools.run import main as run

    os.chdir(ROOT)
    for title, tool, options in STAGES:
        shown = " ".join(f"'{option}'" if "{" in option else option for option in options)
        print(f"\n== {title}\n   {tool} {shown} {FILE}\n".replace("  examples", " examples"), flush=True)
        status = (run if tool == "gradopt-run" else gradopt)([*options, FILE])
        if status:
            return status
    print("\n== Training the network of examples/digits/mlp.ir\n", flush=True)
    return subprocess.run([sys.executable, "examples/digits/train.py", "digits.png"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
