"""A Pygments lexer for MLIR text (`.mlir`, `.ir`), found by Pygments through an entry point."""

from __future__ import annotations

from typing import Any, ClassVar

from pygments.lexer import RegexLexer, bygroups
from pygments.token import Comment, Keyword, Literal, Name, Number, Operator, Punctuation, String, Text, Whitespace

__all__ = ["MlirLexer"]


class MlirLexer(RegexLexer):  # type: ignore[misc]
    """MLIR's textual form, for any dialect."""

    name = "MLIR"
    aliases: ClassVar[list[str]] = ["mlir", "gradopt"]
    filenames: ClassVar[list[str]] = ["*.mlir", "*.ir"]
    mimetypes: ClassVar[list[str]] = ["text/x-mlir"]
    url = "https://mlir.llvm.org"
    tokens: ClassVar[dict[str, list[Any]]] = {
        "root": [
            (r"\s+", Whitespace),
            (r"//.*?$", Comment.Single),
            (r"\{-#|#-\}", Comment.Preproc),
            (r'"(?:\\.|[^"\\\n])*"', String.Double),
            (r"(%)([A-Za-z0-9_$.-]+)((?:#\d+|:\d+)?)", bygroups(Punctuation, Name.Variable, Number.Integer)),
            (r"\^[A-Za-z0-9_$.-]+", Name.Label),
            (r"@(?:[A-Za-z_][A-Za-z0-9_$.]*|\"(?:\\.|[^\"\\\n])*\")", Name.Function),
            (r"![A-Za-z_][A-Za-z0-9_$.]*", Keyword.Type),
            (r"#[A-Za-z_][A-Za-z0-9_$.]*", Name.Attribute),
            (r"\b(tensor|memref|vector|complex|tuple)(<)", bygroups(Keyword.Type, Punctuation), "type"),
            (r"\b(?:[su]?i\d+|b?f\d+\w*|tf32|index|none)\b", Keyword.Type),
            (r"\b(?:dense|dense_resource|sparse|array|affine_map|affine_set|strided|loc|unit)\b", Keyword.Constant),
            (r"\b(?:true|false)\b", Keyword.Constant),
            (r"\b(?:module|attributes|func\.func|return|call|private|public)\b", Keyword),
            (r"\b(?:hl|bwd|prim|kernel|ad|func|builtin)\.[A-Za-z_][\w.]*", Name.Builtin),
            (r"\b[A-Za-z_]\w*\.[A-Za-z_][\w.]*", Name.Builtin),
            (r"[A-Za-z_][\w$.]*(?=\s*=)", Name.Attribute),
            (r"0x[0-9A-Fa-f]+", Number.Hex),
            (r"-?\d+\.\d*(?:[eE][-+]?\d+)?", Number.Float),
            (r"-?\d+", Number.Integer),
            (r"->|[=:*+-]", Operator),
            (r"[()\[\]{}<>,?]", Punctuation),
            (r"[A-Za-z_][\w$.]*", Name),
            (r".", Text),
        ],
        "type": [
            (r"<", Punctuation, "#push"),
            (r">", Punctuation, "#pop"),
            (r"\*x|\d+x|\?x", Literal.Number.Integer),
            (r"\b(?:tensor|memref|vector|complex|tuple)(?=<)", Keyword.Type),
            (r"[su]?i\d+|b?f\d+\w*|tf32|index|none", Keyword.Type),
            (r'"(?:\\.|[^"\\\n])*"', String.Double),
            (r"[#!][A-Za-z_][A-Za-z0-9_$.]*", Name.Attribute),
            (r"->", Operator),
            (r"[^<>\"]", Text),
        ],
    }
