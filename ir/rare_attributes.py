"""Builtin attributes that programs of this project do not make, but that files of others hold."""

from __future__ import annotations

from typing import Any

from gradopt.ir.attributes import Attribute
from gradopt.ir.text import escape_string, nested_lists

__all__ = ["DenseStringAttr", "DistinctAttr"]


class DistinctAttr(Attribute):
    """`distinct[0]<value>`: equal to nothing but itself."""

    __slots__ = ("number", "value")

    def __init__(self, number: int, value: Attribute | None) -> None:
        self.number, self.value = number, value
        self._set(number, value)

    def spell(self) -> str:
        return f"distinct[{self.number}]<{'' if self.value is None else self.value.text}>"


class DenseStringAttr(Attribute):
    """Strings in the shape of a tensor of a dialect's type: one for a splat, all of them otherwise."""

    __slots__ = ("type", "values")

    def __init__(self, values: tuple[str, ...], type: Any) -> None:
        if len(values) > 1 and len(set(values)) == 1:
            values = values[:1]
        self.values, self.type = values, type
        self._set(values, type)

    def spell(self) -> str:
        texts = [escape_string(value) for value in self.values]
        splat = len(texts) == 1
        body = "" if not texts else texts[0] if splat else nested_lists(texts, self.type.shape)
        return f"dense<{body}> : {self.type.text}"
