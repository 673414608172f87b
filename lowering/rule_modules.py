"""Importing the modules of a table of rules: a rule is known once its module is imported."""

from __future__ import annotations

import functools
import importlib
import pkgutil

__all__ = ["import_rule_modules"]


@functools.cache
def import_rule_modules(package: str) -> None:
    """Imports every module of a package, once a process; the tables ask for it late, because it takes a while."""
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")
