"""`make demo`: the stages of one small file, then a network trained on handwritten digits and a picture of how it went."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STAGES = (
    ("The program (dialect hl)", "canonicalize"),
    ("autodiff: the gradient with respect to the weights (hl, bwd and prim)", "autodiff{func=loss wrt=w},cse,dce"),
    ("decompose: prim only", "autodiff{func=loss wrt=w},decompose,canonicalize,cse,dce"),
    ("fuse: kernels", "autodiff{func=loss wrt=w},decompose,canonicalize,cse,dce,fuse"),
)


def main() -> int:
    """Runs everything; gives the exit status of the training."""
    from gradopt.tools.gradopt import main as gradopt

    os.chdir(ROOT)
    for title, passes in STAGES:
        print(f"\n== {title}\n   gradopt --pass='{passes}' examples/layer.ir\n", flush=True)
        if gradopt([f"--pass={passes}", "examples/layer.ir"]):
            return 1
    picture = ROOT / "digits.png"
    print("\n== Training the network of examples/digits/mlp.ir\n", flush=True)
    return subprocess.run([sys.executable, "examples/digits/train.py", str(picture)], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
