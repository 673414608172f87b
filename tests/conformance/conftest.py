"""Puts this folder on the path, so that its tests share `mlir_support`, and that of the lit tests with their runner."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "lit")]
