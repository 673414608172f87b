"""Random generic MLIR text from a seed: types, attributes, locations, packs of values, regions and blocks in odd spellings.

Left out is what MLIR itself does not print as it reads it: integers of no bits, floats beyond their type, sums that fold when read again.
"""

from __future__ import annotations

import random

INTEGERS = ("i1", "i8", "i32", "i64", "index", "si8", "ui8", "i7", "si64", "ui16", "i65", "ui1", "si1")
FLOATS = ("f16", "bf16", "f32", "f64", "tf32", "f8E5M2", "f8E4M3FN", "f8E4M3B11FNUZ", "f6E2M3FN", "f4E2M1FN")
STRINGS = ("a", " ", "\\n", "\\\\", '\\"', "\\22", "\\FF", "\\c3\\a9", "é", "//", "<", ">", "{", "->", "#", "%0", "0x", "\t")
KEYS = ("a", "b.c", "loc", "true", "unit", "module", "at", "fused", "dense", "tensor", "i32", "func.func", "affine_map", "_x", "x4", '"k "')
BODIES = ("a", "1, 2", "[b, f]x[o]->[b]", '"s>"', "(<x>)", "{a = 1}", "a//b", "x >= <y>", "4x?x*", "!t<#a>", "a\n b")
EXPRESSIONS = ("d0", "d1 * 2", "d0 + d1", "(d0 floordiv 2) * 4", "s0 mod 3", "d0 ceildiv 2 + s0", "7", "d1 - 3", "(d0 + 1) * s0")


class RandomText:
    """One module; every part is a text that MLIR accepts."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names = 0
        self.made: list[tuple[str, str]] = []  # the results of the operation that is being made, with their types

    def one(self, *choices: str) -> str:
        """One of several texts."""
        return self.random.choice(choices)

    def several(self, make: object, most: int = 3) -> str:
        """Up to so many texts, with commas."""
        return ", ".join(make() for _ in range(self.random.randint(0, most)))  # type: ignore[operator]

    def string(self) -> str:
        return '"' + "".join(self.random.choices(STRINGS, k=self.random.randint(0, 4))) + '"'

    def integer(self) -> str:
        return self.one("0", "1", "-1", "5", "0x1F", "- 3", "007", "127", "-0x1")

    def number(self) -> str:
        return self.one("0.0", "-0.0", "1.", "0.5", "1.5e0", "0.1", "2.25E-1", "- 2.0")

    def body(self, sigil: str) -> str:
        """A type or attribute of a dialect that nobody knows."""
        return sigil + self.one("d.t", "d.n.m", "my_d._t", f"d.t<{self.one(*BODIES)}>", f"d<t {self.one(*BODIES)}>", "d<t>", "d<t<a>>", "d.2")

    def sizes(self, *extra: str) -> str:
        return "".join(self.one("1", "2", "3", *extra) + self.one("x", "x", " x ") for _ in range(self.random.randint(0, 3)))

    def scalar(self) -> str:
        return self.one(*INTEGERS, *FLOATS)

    def type(self, depth: int = 0) -> str:
        kind = self.random.randint(0, 8 if depth < 2 else 5)
        if kind == 0:
            return self.body("!")
        if kind == 1:
            element = self.one(self.scalar(), "complex<f32>", self.body("!"), "vector<2xf32>")
            return f"tensor<{self.sizes('?', '0')}{element}{self.one('', '', ', unit', ', {a, b = 5}', ', ')}>"
        if kind == 2:
            return f"vector<{self.sizes('[4]')}{self.scalar()}>"
        if kind == 3:
            space = self.one("", "", ", 1", ", 0 : i32", ", \"x\"", ", {a}", ", 3 : i8")
            return f"memref<2x?x{self.scalar()}{self.one('', ', strided<[?, 1], offset: ?>', f', {self.map(True)}')}{space}>"
        if kind == 4:
            return self.one("tensor<*xf32>", "memref<* x i8, 0>", "none", "tensor<0x10xf32>", "complex<i8>")
        if kind == 6:
            return f"tuple<{self.several(lambda: self.type(depth + 1))}>"
        if kind == 7:
            return f"({self.several(lambda: self.type(depth + 1), 2)}) -> ({self.several(lambda: self.type(depth + 1), 2)})"
        return self.scalar()

    def map(self, layout: bool = False) -> str:
        results = ", ".join(self.random.choices(EXPRESSIONS, k=2 if layout else self.random.randint(0, 3)))
        return f"affine_map<(d0, d1)[s0] -> ({results})>"

    def dense(self) -> str:
        shape = self.random.choices((1, 2, 3), k=self.random.randint(0, 2))
        element = self.one("i8", "si8", "i7", "i64", "index", "i1", "ui1", *FLOATS, "complex<f32>", "!d.s", "0")
        if element == "0":
            return self.one("dense<1.0> : tensor<0xf32>", "dense<[]> : tensor<0xi8>", 'dense<"0x01020304"> : tensor<4xi8>',
                            'dense<"0x0F"> : tensor<4xi1>', "dense<0.0> : tensor<0xcomplex<f32>>", "dense_resource<k> : tensor<2xi8>",
                            "sparse<[[0, 1]], 5> : tensor<2x2xi8>", 'sparse<0, "a"> : tensor<2x!d.s>')

        def value() -> str:
            if element in ("i1", "ui1"):
                return self.one("true", "false")
            if element == "!d.s":
                return self.string()
            number = self.number if element in FLOATS or "f32" in element else self.integer
            return f"({number()}, {number()})" if "complex" in element else number()

        def nested(sizes: list[int]) -> str:
            return value() if not sizes else "[" + ", ".join(nested(sizes[1:]) for _ in range(sizes[0])) + "]"

        return f"dense<{value() if self.one('splat', '') else nested(shape)}> : tensor<{''.join(f'{size}x' for size in shape)}{element}>"

    def attribute(self, depth: int = 0) -> str:
        simple = (f"{self.integer()} : {self.one('i8', 'i32', 'si8', 'index')}", self.integer(), f"{self.number()} : {self.one(*FLOATS)}",
                  self.number(), self.string(), f"{self.string()} : {self.one('none', 'i32')}", "unit", "true", "@a::@b.c::@\"w \"",
                  self.type(1), self.dense(), self.dense(), self.body("#"), f"{self.body('#')} : {self.one('none', 'f32')}", self.map(),
                  "affine_set<(d0)[s0] : (d0 >= 0, s0 == 0)>", "strided<[1, ?], offset: 3>", "array<i8: 1, -2>", "array<ui8: -1>",
                  "array<f32: 1.0>", "array<si1: true>", f"loc({self.place(2)})", f"distinct[{self.random.randint(0, 2)}]<>")
        if depth < 2 and not self.random.randint(0, 3):
            return self.one(f"[{self.several(lambda: self.attribute(depth + 1))}]", self.dictionary(depth + 1))
        return self.one(*simple)

    def dictionary(self, depth: int = 0) -> str:
        keys = self.random.sample(KEYS, self.random.randint(0, 3))
        return "{" + ", ".join(key + self.one("", f" = {self.attribute(depth)}", f"={self.attribute(depth)}") for key in keys) + "}"

    def place(self, depth: int = 0) -> str:
        """A location."""
        if depth > 2 or self.random.randint(0, 1):
            return self.one("unknown", self.string(), '"f.py":1:2', '"f.py":1:2 to 3:4', '"f.py":1:2 to :9', '"":3:4')
        inner = [self.place(depth + 1) for _ in range(2)]
        return self.one(f"callsite({inner[0]} at {inner[1]})", f"fused[{inner[0]}, {inner[1]}]", f'"n"({inner[0]})',
                        f"fused<{self.one(self.dense(), self.map(), self.integer(), self.type(2))}>[{inner[0]}]")

    def operation(self, values: list[tuple[str, str]], depth: int, blocks: list[str]) -> str:
        operands = self.random.choices(values, k=self.random.randint(0, 2)) if values else []
        results: list[str] = []
        heads = []
        for count in self.random.choices((1, 1, 2), k=self.random.randint(0, 2)):
            self.names += 1
            name = self.one(f"%{self.names}", f"%v.{self.names}", f"%$-{self.names}")
            types = [self.type(1) for _ in range(count)]
            heads.append(name if count == 1 else f"{name}:{count}")
            results += types
            self.made += [(name if count == 1 else f"{name}#{index}", type) for index, type in enumerate(types)]
        successors = f"[{', '.join(self.random.choices(blocks, k=2))}]" if blocks else ""
        properties = self.one("", "", f" <{self.dictionary()}>", f" <{self.attribute()}>")
        regions = ""
        if depth < 2 and not self.random.randint(0, 3):
            made = self.made
            regions = f" ({self.region(values, depth + 1)}, {self.region(values, depth + 1)})"
            self.made = made
        attributes = self.one("", f" {self.dictionary()}")
        inputs = ", ".join(type for _, type in operands)
        return (f"{', '.join(heads)}{' = ' if heads else ''}\"t.{self.one('a', 'b', 'é')}\"({', '.join(name for name, _ in operands)})"
                f"{successors}{properties}{regions}{attributes} : ({inputs}) -> ({', '.join(results)}) loc({self.place()})")

    def operations(self, values: list[tuple[str, str]], depth: int, blocks: list[str]) -> str:
        lines, values = [], list(values)
        count = self.random.randint(1, 3)
        for index in range(count):
            self.made = []
            lines.append(self.operation(values, depth, blocks if index == count - 1 else []))
            values += self.made
        return "\n".join(lines) + "\n"

    def region(self, values: list[tuple[str, str]], depth: int) -> str:
        self.names += 1
        blocks = [f"^b{self.names}.{index}" for index in range(self.random.randint(0, 3))]
        text = "{"
        for index, block in enumerate(blocks):
            argument = (f"%a{self.names}.{index}", self.type(1))
            text += f"\n{block}({argument[0]}: {argument[1]} loc({self.place()})):\n"
            text += self.operations([*values, argument], depth, blocks[1:])
        return text + "}"

    def module(self) -> str:
        """The whole text."""
        return f'"builtin.module"() ({{\n{self.operations([], 0, [])}}}) : () -> () loc({self.place()})\n'
