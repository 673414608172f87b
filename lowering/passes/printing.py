"""Prints the IR around passes, to a stream or as a tree of files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TextIO

from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.operation import Operation
from gradopt.lowering.passes.base import Pass
from gradopt.lowering.passes.manager import Instrument

__all__ = ["PrintInstrument"]


class PrintInstrument(Instrument):
    """`before` and `after` hold pass names, or None for all passes.

    `on_change` prints after a pass only where it changed something, `on_failure` only where it failed; `module_scope` prints the
    whole module also for a pass that runs on a part of it. With `folder` each print is a file of its own:
    `folder/0_autodiff.ir`, and `folder/1_func_func_f/0_cse.ir` in a nested pipeline.
    """

    def __init__(self, show: Callable[[Operation], str], stream: TextIO, *, before: Iterable[str] | None = (),
                 after: Iterable[str] | None = (), on_change: bool = False, on_failure: bool = False, module_scope: bool = False,
                 folder: str | None = None) -> None:
        self.show, self.stream, self.folder = show, stream, folder
        self.before = None if before is None else frozenset(before)
        self.after = None if after is None else frozenset(after)
        self.on_change, self.on_failure, self.module_scope = on_change, on_failure, module_scope
        self.texts: list[str] = []
        self.places: list[tuple[str, int]] = [("", 0)]  # the folder of each open pipeline and the number of its next pass

    def before_pass(self, item: Pass, op: Operation) -> None:
        if self.before is None or item.name in self.before:
            self._print(op, f"Before {type(item).__name__} ({item.name})", f"{item.name}.before")
        if self.on_change:
            self.texts.append(self.show(op))

    def after_pass(self, item: Pass, op: Operation) -> None:
        wanted = self.after is None or item.name in self.after
        if self.on_change:
            changed = self.show(op) != self.texts.pop()
            if wanted and not changed and not self.on_failure:
                self._write(f"// -----// IR Dump After {type(item).__name__} ({item.name}) (no change)\n")
            wanted = wanted and changed
        if wanted and not self.on_failure:
            self._print(op, f"After {type(item).__name__} ({item.name})", item.name)
        self._next()

    def after_failure(self, item: Pass, op: Operation) -> None:
        if self.on_failure or self.after is None or item.name in self.after:
            self._print(op, f"After {type(item).__name__} Failed ({item.name})", f"{item.name}.failed")

    def before_nested(self, anchor: str, op: Operation) -> None:
        from gradopt.ir.symbols import symbol_name

        folder, number = self.places[-1]
        name = "".join(c if c.isalnum() else "_" for c in f"{anchor}_{symbol_name(op) or ''}").strip("_")
        self.places.append((os.path.join(folder, f"{number}_{name}"), 0))

    def after_nested(self, anchor: str, op: Operation) -> None:
        self.places.pop()
        self._next()

    def _next(self) -> None:
        folder, number = self.places[-1]
        self.places[-1] = (folder, number + 1)

    def _write(self, text: str) -> None:
        if self.folder is None:
            self.stream.write(text)

    def _print(self, op: Operation, title: str, name: str) -> None:
        if self.module_scope:
            while op.parent_op is not None:
                op = op.parent_op
        text = self.show(op).rstrip("\n")
        if self.folder is None:
            self.stream.write(f"// -----// IR Dump {title} //----- //\n{text}\n\n")
            return
        folder, number = self.places[-1]
        place = os.path.join(self.folder, folder)
        path = os.path.join(place, f"{number}_{name}.ir")
        try:
            os.makedirs(place, exist_ok=True)
            with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(text + "\n")
        except OSError as error:
            raise GradoptError.at(op.location, f"cannot write '{path}': {error.strerror}") from None
