"""Programs whose StableHLO text JAX ran once (see make_stablehlo_reference.py): name -> body of @main, its arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

X = np.array([[0.5, -1.25, np.nan, 2.0, 2.0], [-0.0, 3.0, -7.5, 0.25, np.inf], [1.0, 1.0, -1.0, 6.0, -2.5]], np.float32)
Y = np.array([[1.5, -2.0, 0.0], [0.5, 4.0, -1.0]], np.float32)
S = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, -1.0], [0.5, -1.0, 5.0]], np.float64)
PLACES = np.array([0, 2, -1, 5, -9], np.int64)
N = np.array([7, -7, 0, -128, 5], np.int8)
D = np.array([2, -2, 0, -1, 0], np.int8)
IMAGE = (np.arange(48, dtype=np.float32).reshape(1, 2, 4, 6) % 7) - 3
KERNEL = (np.arange(12, dtype=np.float32).reshape(2, 1, 2, 3) % 5) - 2
F35, I35 = "tensor<3x5xf32>", "tensor<3x5xi64>"

PROGRAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "elementwise": (
        f"%a = prim.trunc %x : {F35}\n%b = prim.sign %x : {F35}\n%c = prim.mul_zero %x, %a : {F35}\n%d = prim.rem %x, %c : {F35}\n"
        f"%e = prim.atan2 %x, %b : {F35}\n%f = prim.erf %x : {F35}\n%g = prim.max %x, %b : {F35}\n%h = prim.exp2 %b : {F35}\n"
        f"return %a, %b, %c, %d, %e, %f, %g, %h : {', '.join([F35] * 8)}", {"x": X}),
    "integers": (
        "%a = prim.div %n, %d : tensor<5xi8>\n%b = prim.rem %n, %d : tensor<5xi8>\n%c = prim.shr %n, %d : tensor<5xi8>\n"
        "%e = prim.shl %n, %d : tensor<5xi8>\n%f = prim.cast %n : (tensor<5xi8>) -> tensor<5xi1>\n"
        "return %a, %b, %c, %e, %f : tensor<5xi8>, tensor<5xi8>, tensor<5xi8>, tensor<5xi8>, tensor<5xi1>", {"n": N, "d": D}),
    "casts": (f"%a = prim.cast %x : ({F35}) -> tensor<3x5xi32>\n%b = prim.bitcast %x : ({F35}) -> tensor<3x5xi32>\n"
              "return %a, %b : tensor<3x5xi32>, tensor<3x5xi32>", {"x": X}),
    "reductions": (
        f'%a = prim.reduce %x {{axes = [1], kind = "max"}} : ({F35}) -> tensor<3xf32>\n'
        f'%b = prim.arg_reduce %x {{axis = 1, kind = "max"}} : ({F35}) -> tensor<3xi64>\n'
        f'%c = prim.arg_reduce %x {{axis = 0, kind = "min"}} : ({F35}) -> tensor<5xi64>\n'
        f'%d = prim.cumulative %y {{axis = 1, exclusive = true, kind = "sum", reverse = true}} : tensor<2x3xf32>\n'
        f'%e = prim.cumulative %y {{axis = 0, kind = "max"}} : tensor<2x3xf32>\n'
        "return %a, %b, %c, %d, %e : tensor<3xf32>, tensor<3xi64>, tensor<5xi64>, tensor<2x3xf32>, tensor<2x3xf32>", {"x": X, "y": Y}),
    "sort": (f"%i = prim.iota {{axis = 1}} : {I35}\n%a, %b = prim.sort %x, %i {{axis = 1, descending = true}} : ({F35}, {I35}) -> ({F35}, {I35})\n"
             f"%c = prim.sort %x {{axis = 0}} : {F35}\nreturn %a, %b, %c : {F35}, {I35}, {F35}", {"x": X}),
    **{f"gather {mode}": (f'%a = prim.gather %y, %i {{axis = 1, mode = "{mode}"}} : (tensor<2x3xf32>, tensor<5xi64>) -> tensor<2x5xf32>\n'
                          "return %a : tensor<2x5xf32>", {"y": Y, "i": PLACES}) for mode in ("clip", "wrap", "fill", "nan")},
    **{f"scatter {mode}": (
        f'%a = prim.scatter %x, %i, %u {{axis = 0, kind = "add", mode = "{mode}"}} : (tensor<3x5xf32>, tensor<5xi64>, tensor<5x5xf32>) -> '
        "tensor<3x5xf32>\nreturn %a : tensor<3x5xf32>",
        {"x": X, "i": PLACES, "u": np.arange(25, dtype=np.float32).reshape(5, 5)}) for mode in ("clip", "wrap", "fill")},
    "shapes": (
        "%z = prim.constant dense<9.0> : tensor<f32>\n"
        "%a = prim.pad %y, %z {high = [0, -1], interior = [1, 0], low = [1, 2]} : (tensor<2x3xf32>, tensor<f32>) -> tensor<4x4xf32>\n"
        "%b = prim.slice %a {begin = [1, 0], end = [4, 4], strides = [2, 3]} : (tensor<4x4xf32>) -> tensor<2x2xf32>\n"
        "%c = prim.flip %y {axes = [1]} : tensor<2x3xf32>\n%d = prim.concat %y, %c {axis = 0} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>\n"
        "%e = prim.permute %d {axes = [1, 0]} : (tensor<4x3xf32>) -> tensor<3x4xf32>\n"
        "%f = prim.expand %e {axes = [1]} : (tensor<3x4xf32>) -> tensor<3x2x4xf32>\n"
        "return %a, %b, %f : tensor<4x4xf32>, tensor<2x2xf32>, tensor<3x2x4xf32>", {"y": Y}),
    "linear": (
        "%l = prim.cholesky %s : tensor<3x3xf64>\n%t = prim.triangular_solve %l, %s {lower = true, transpose = true} : tensor<3x3xf64>\n"
        "%d = prim.dot %s, %t {lhs_contract = [0], rhs_contract = [1]} : tensor<3x3xf64>\n"
        "return %l, %t, %d : tensor<3x3xf64>, tensor<3x3xf64>, tensor<3x3xf64>", {"s": S}),
    "conv": (
        "%a = prim.conv %x, %w {groups = 2, lhs_dilation = [2, 1], padding = [[1, 0], [2, -1]], rhs_dilation = [1, 2], strides = [2, 1]} : "
        "(tensor<1x2x4x6xf32>, tensor<2x1x2x3xf32>) -> tensor<1x2x4x3xf32>\nreturn %a : tensor<1x2x4x3xf32>", {"x": IMAGE, "w": KERNEL}),
    "scan": (
        "%c, %r = prim.scan %a, %y {length = 2, num_carry = 1, num_xs = 1, reverse = true} ({\n^bb0(%c: tensor<3xf32>, %x: tensor<3xf32>):\n"
        "%n = prim.mul %c, %x : tensor<3xf32>\n%m = prim.add %n, %c : tensor<3xf32>\nprim.yield %m, %n : tensor<3xf32>, tensor<3xf32>\n"
        "}) : (tensor<3xf32>, tensor<2x3xf32>) -> (tensor<3xf32>, tensor<2x3xf32>)\nreturn %c, %r : tensor<3xf32>, tensor<2x3xf32>",
        {"a": Y[0], "y": Y}),
    "branches": (
        "%a = prim.switch %i, %y ({\n^bb0(%x: tensor<2x3xf32>):\n%s = prim.cos %x : tensor<2x3xf32>\nprim.yield %s : tensor<2x3xf32>\n}, {\n"
        "^bb0(%x: tensor<2x3xf32>):\nprim.yield %x : tensor<2x3xf32>\n}) : (tensor<i64>, tensor<2x3xf32>) -> tensor<2x3xf32>\n"
        "%n, %w = prim.while %i, %a, %y {num_carry = 2} ({\n^bb0(%j: tensor<i64>, %c: tensor<2x3xf32>, %k: tensor<2x3xf32>):\n"
        '%ten = prim.constant dense<9> : tensor<i64>\n%t = prim.cmp %j, %ten {predicate = "lt"} : (tensor<i64>, tensor<i64>) -> tensor<i1>\n'
        "prim.yield %t : tensor<i1>\n}, {\n^bb0(%j: tensor<i64>, %c: tensor<2x3xf32>, %k: tensor<2x3xf32>):\n"
        "%one = prim.constant dense<1> : tensor<i64>\n%m = prim.add %j, %one : tensor<i64>\n%d = prim.mul %c, %k : tensor<2x3xf32>\n"
        "prim.yield %m, %d : tensor<i64>, tensor<2x3xf32>\n}) : (tensor<i64>, tensor<2x3xf32>, tensor<2x3xf32>) -> (tensor<i64>, tensor<2x3xf32>)\n"
        "return %a, %w : tensor<2x3xf32>, tensor<2x3xf32>", {"i": np.array(7, np.int64), "y": Y}),
}
TYPES = {"float32": "f32", "float64": "f64", "int64": "i64", "int8": "i8"}


def program_text(name: str) -> str:
    """The module of a program."""
    body, arguments = PROGRAMS[name]
    types = {key: "tensor<" + "".join(f"{size}x" for size in array.shape) + TYPES[str(array.dtype)] + ">" for key, array in arguments.items()}
    results = body.rsplit(" : ", 1)[1]
    return f"func.func @main({', '.join(f'%{key}: {type}' for key, type in types.items())}) -> ({results}) {{\n{body}\n}}"
