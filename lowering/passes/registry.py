"""Where each pass is found. A pass's module is imported when the pass is first asked for."""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache

from gradopt.lowering.passes.base import Pass

__all__ = ["find_pass", "pass_names", "register_pass"]

_PLACES: dict[str, str] = {
    "autodiff": "gradopt.lowering.autodiff.pass_:AutodiffPass",
    "batch": "gradopt.lowering.batch.pass_:BatchPass",
    "bind": "gradopt.lowering.sizes.bind:BindPass",
    "canonicalize": "gradopt.lowering.simplify.canonicalize:CanonicalizePass",
    "checkpoint": "gradopt.lowering.remat.pass_:CheckpointPass",
    "cse": "gradopt.lowering.simplify.cse:CsePass",
    "dce": "gradopt.lowering.simplify.dce:DcePass",
    "decompose": "gradopt.lowering.decompose.pass_:DecomposePass",
    "fold": "gradopt.lowering.simplify.fold:FoldPass",
    "fuse": "gradopt.lowering.fuse.pass_:FusePass",
    "infer-shapes": "gradopt.lowering.sizes.infer:InferShapesPass",
    "inline": "gradopt.lowering.simplify.inline:InlinePass",
    "licm": "gradopt.lowering.simplify.licm:LicmPass",
    "scan-fission": "gradopt.lowering.loops.pass_:ScanFissionPass",
    "scan-residuals": "gradopt.lowering.loops.pass_:ScanResidualsPass",
    "select-kernels": "gradopt.lowering.select.pass_:SelectKernelsPass",
    "plan": "gradopt.lowering.plan.pass_:PlanPass",
    "print-op-stats": "gradopt.lowering.passes.reports:PrintOpStatsPass",
    "remat": "gradopt.lowering.remat.pass_:RematPass",
    "symbol-dce": "gradopt.lowering.simplify.symbol_dce:SymbolDcePass",
    "view-op-graph": "gradopt.lowering.passes.reports:ViewOpGraphPass",
}


def register_pass(name: str, place: str) -> None:
    """Adds a pass: `"package.module:Class"`."""
    _PLACES[name] = place
    pass_names.cache_clear()


@cache
def pass_names() -> tuple[str, ...]:
    """All passes that can be run, sorted (a place whose module is not there does not count)."""
    return tuple(sorted(name for name, place in _PLACES.items() if _exists(place.split(":")[0])))


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def find_pass(name: str) -> type[Pass] | None:
    """The class of a pass, `-` and `_` alike; None if there is none of that name."""
    name = name.replace("_", "-")
    if name not in _PLACES or not _exists(_PLACES[name].split(":")[0]):
        return None
    module, variable = _PLACES[name].split(":")
    found: type[Pass] = getattr(importlib.import_module(module), variable)
    return found
