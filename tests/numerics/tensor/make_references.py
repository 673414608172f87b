"""Writes tensor_reference.npz: values and gradients of the samples by PyTorch or JAX. Neither is needed to run the tests.

python tests/numerics/tensor/make_references.py
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import jax
import jax.numpy as jnp
import torch
import torch.nn.functional as F
from samples import SAMPLES, few
from tensor_support import Sample, arrays_of, floats, random_like

jax.config.update("jax_enable_x64", True)
TARGET = Path(__file__).with_name("tensor_reference.npz")
Library = Callable[..., Any]  # (attributes, operands…) -> a result or several


def plain(*names: str, module: Any = torch) -> dict[str, Library]:
    """Functions of the same name and meaning."""
    return {name: lambda how, *x, name=name: getattr(module, name)(*x) for name in names}


def axes_of(how: dict[str, Any], x: Any) -> list[int]:
    return list(range(x.ndim)) if how.get("axes") is None else list(how["axes"])


def over(function: Callable[..., Any]) -> Library:
    """A reduction that takes dim and keepdim; over no axes it is taken over a new one of size 1."""

    def reduce(how: dict[str, Any], x: Any) -> Any:
        axes, keep = axes_of(how, x), how.get("keepdims", False)
        return function(x, dim=axes, keepdim=keep) if axes else function(x[..., None], dim=[x.ndim], keepdim=False)

    return reduce


def one_after_the_other(function: Callable[..., Any]) -> Callable[..., Any]:
    """A reduction along one axis, along several."""

    def reduce(x: Any, dim: list[int], keepdim: bool) -> Any:
        for axis in sorted((axis % x.ndim for axis in dim), reverse=True):
            x = function(x, dim=axis, keepdim=keepdim)
        return x

    return reduce


def running(function: Callable[..., Any]) -> Library:
    def run(how: dict[str, Any], x: Any) -> Any:
        x, axis = (x.reshape(-1), 0) if how.get("axis") is None else (x, how["axis"])
        x = x.flip(axis) if how.get("reverse") else x
        if how.get("exclusive"):
            identity = 1.0 if function is torch.cumprod else 0.0
            first = torch.full_like(x.narrow(axis, 0, 1), identity)
            x = torch.cat([first, x.narrow(axis, 0, x.shape[axis] - 1)], axis)
        total = function(x, axis)
        return total.flip(axis) if how.get("reverse") else total

    return run


def strided(how: dict[str, Any]) -> tuple[slice, ...]:
    return tuple(slice(*each) for each in zip(how["begin"], how["end"], how.get("strides") or [1] * len(how["begin"])))


class NotThere(Exception):
    """The library has no such form of the op."""


def skipped() -> Any:
    raise NotThere


def extreme_index(function: Callable[..., Any], how: dict[str, Any], x: Any) -> Any:
    if how.get("axis") is None:
        found = function(x)
        return found.reshape([1] * x.ndim) if how.get("keepdims") else found
    return function(x, dim=how["axis"], keepdim=how.get("keepdims", False))


def expanded(how: dict[str, Any], x: Any) -> Any:
    rank = x.ndim + len(how["axes"])
    for axis in sorted(axis % rank for axis in how["axes"]):
        x = x.unsqueeze(axis)
    return x


def torch_table() -> dict[str, Library]:
    table = plain(
        *[
            "abs",
            "neg",
            "sign",
            "floor",
            "ceil",
            "trunc",
            "sqrt",
            "rsqrt",
            "exp",
            "exp2",
            "expm1",
            "log",
            "log2",
            "log1p",
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "atan",
            "sinh",
            "cosh",
            "tanh",
            "asinh",
            "acosh",
        ],
        *[
            "atanh",
            "erf",
            "erfc",
            "erfinv",
            "reciprocal",
            "square",
            "sinc",
            "sigmoid",
            "relu",
            "isnan",
            "isfinite",
            "where",
            "maximum",
            "minimum",
            "atan2",
            "logaddexp",
            "fmod",
        ],
    )
    table |= plain(*["relu6", "selu", "silu", "mish"], module=F)
    table |= {
        "log_sigmoid": lambda how, x: F.logsigmoid(x),
        "hard_sigmoid": lambda how, x: F.relu6(x + 3) / 6,
        "hard_swish": lambda how, x: F.hardswish(x),
        "softplus": lambda how, x: F.softplus(x, how.get("beta", 1.0), how.get("threshold", 20.0)),
        "leaky_relu": lambda how, x: F.leaky_relu(x, how.get("alpha", 0.01)),
        "elu": lambda how, x: F.elu(x, how.get("alpha", 1.0)),
        "celu": lambda how, x: F.celu(x, how.get("alpha", 1.0)),
        "gelu": lambda how, x: F.gelu(x, approximate=how.get("approximate", "none")),
        "hard_tanh": lambda how, x: F.hardtanh(x, how.get("min", -1.0), how.get("max", 1.0)),
        "clip": lambda how, x: torch.clamp(x, how["min"], how["max"]),
        "add": lambda how, x, y: x + y,
        "subtract": lambda how, x, y: x - y,
        "multiply": lambda how, x, y: x * y,
        "divide": lambda how, x, y: x / y,
        "floor_divide": lambda how, x, y: torch.floor(x / y),
        "mod": lambda how, x, y: torch.remainder(x, y),
        "power": lambda how, x, y: x**y,
        "xlogy": lambda how, x, y: torch.special.xlogy(x, y),
        "xlog1py": lambda how, x, y: torch.special.xlog1py(x, y),
        "prelu": lambda how, x, y: torch.where(x > 0, x, x * y),
        "clamp": lambda how, x, low, high: torch.clamp(*torch.broadcast_tensors(x, low, high)),
        "fma": lambda how, x, y, z: torch.addcmul(*torch.broadcast_tensors(z, x, y)),
        "sum": over(torch.sum),
        "mean": over(torch.mean),
        "max": over(torch.amax),
        "min": over(torch.amin),
        "prod": over(one_after_the_other(torch.prod)),
        "logsumexp": over(torch.logsumexp),
        "variance": over(lambda x, dim, keepdim: torch.var(x, dim, correction=0, keepdim=keepdim)),
        "std": over(lambda x, dim, keepdim: torch.std(x, dim, correction=0, keepdim=keepdim)),
        "cumsum": running(torch.cumsum),
        "cumprod": running(torch.cumprod),
        "cummax": lambda how, x: torch.cummax(x, how["axis"])[0],
        "cummin": lambda how, x: torch.cummin(x, how["axis"])[0],
        "logcumsumexp": lambda how, x: torch.logcumsumexp(x, how["axis"]),
        "softmax": lambda how, x: torch.softmax(x, how.get("axis", -1)),
        "log_softmax": lambda how, x: torch.log_softmax(x, how.get("axis", -1)),
        "sort": lambda how, x: torch.sort(x, how.get("axis", -1), how.get("descending", False))[0],
        "topk": lambda how, x: torch.topk(x, how["k"], how["axis"]),
        "tril": lambda how, x: torch.tril(x, how.get("k", 0)),
        "triu": lambda how, x: torch.triu(x, how.get("k", 0)),
        "flip": lambda how, x: torch.flip(x, axes_of(how, x)),
        "roll": lambda how, x: torch.roll(x, how["shifts"], how["axes"]) if how["shifts"] else x + 0,
        "tile": lambda how, x: torch.tile(x, how["repeats"]),
        "concat": lambda how, *x: torch.cat(x, how["axis"]),
        "stack": lambda how, *x: torch.stack(x, how["axis"]),
        "permute_dims": lambda how, x: x.permute(list(reversed(range(x.ndim))) if how.get("axes") is None else list(how["axes"])),
        "take_along_axis": lambda how, x, i: torch.take_along_dim(x, (i % x.shape[how["axis"]]).long(), how["axis"]),
        "outer": lambda how, a, b: torch.outer(a.reshape(-1), b.reshape(-1)),
        "einsum": lambda how, *x: torch.einsum(how["equation"], *x),
        "matmul": lambda how, a, b: torch.matmul(
            *(x.mT if how.get(f"transpose_{name}") and x.ndim > 1 else x for name, x in (("a", a), ("b", b)))
        ),
        "cholesky": lambda how, a: torch.linalg.cholesky(a.tril() + a.tril(-1).mT),
        "embedding": lambda how, x, i: F.embedding(i % len(x), x, how.get("padding_idx")),
        "det": lambda how, a: torch.linalg.det(a),
        "round": lambda how, x: torch.round(x),
        "equal": lambda how, x, y: torch.eq(x, y),
        "not_equal": lambda how, x, y: torch.ne(x, y),
        "less": lambda how, x, y: torch.lt(x, y),
        "less_equal": lambda how, x, y: torch.le(x, y),
        "greater": lambda how, x, y: torch.gt(x, y),
        "greater_equal": lambda how, x, y: torch.ge(x, y),
        "zeros_like": lambda how, x: torch.zeros_like(x),
        "ones_like": lambda how, x: torch.ones_like(x),
        "full_like": lambda how, x, value: value.expand(x.shape),
        "argmax": lambda how, x: extreme_index(torch.argmax, how, x),
        "argmin": lambda how, x: extreme_index(torch.argmin, how, x),
        "argsort": lambda how, x: torch.sort(x, dim=how.get("axis", -1), descending=how.get("descending", False), stable=True)[1],
        "flatten": lambda how, x: x.reshape(-1),
        "expand_dims": lambda how, x: expanded(how, x),
        "squeeze": lambda how, x: x.squeeze() if how.get("axes") is None else x.squeeze(list(how["axes"])),
        "split": lambda how, x: torch.split(
            x, list(how["sizes"]) if how.get("sizes") is not None else x.shape[how["axis"]] // how["sections"], how["axis"]
        ),
        "take_multi": lambda how, x, *i: x[tuple(i)] if list(how["axes"]) == list(range(len(i))) else skipped(),
        "indexing_one_hot": lambda how, x, i: torch.gather(x, how["axis"], (i % x.shape[how["axis"]]).long().unsqueeze(how["axis"])),
        "set_one_hot": lambda how, x, i, u: x.scatter(how["axis"], (i % x.shape[how["axis"]]).long().unsqueeze(how["axis"]), u),
        "inverse": lambda how, a: torch.linalg.inv(a),
        "solve": lambda how, a, b: torch.linalg.solve(a, b),
    }
    return table


def jax_table() -> dict[str, Library]:
    def along(x: Any, indices: Any, axis: int) -> Any:
        place = list(jnp.indices(indices.shape))
        place[axis] = indices
        return x.at[tuple(place)]

    return {
        "norm": lambda how, x: jnp.linalg.norm(
            x.reshape(-1) if how.get("axes") is None else x,
            how.get("ord", 2.0),
            axis=0 if how.get("axes") is None else how["axes"][0],
            keepdims=how.get("keepdims", False),
        ),
        "strided_slice": lambda how, x: x[strided(how)],
        "set_slice": lambda how, x, update: x.at[strided(how)].set(update),
        "pad": lambda how, x: jnp.pad(
            x,
            list(zip(how["low"], how["high"])),
            **({"constant_values": how.get("value", 0.0)} if how.get("mode", "constant") == "constant" else {"mode": how["mode"]}),
        ),
        "put_along_axis": lambda how, x, i, u: getattr(
            along(x, i, how["axis"]), {"set": "set", "add": "add", "max": "max", "min": "min", "mul": "mul"}[how.get("kind", "set")]
        )(u),
        "take": lambda how, x, i: jnp.take(x, i, axis=how.get("axis"), mode="wrap"),
        "add_multi": lambda how, x, u, *i: x.at[i].add(u),
        "set_multi": lambda how, x, u, *i: x.at[i].set(u),
        "triangular_solve": lambda how, a, b: jax.scipy.linalg.solve_triangular(
            a, b, lower=how.get("lower", True), trans=int(how.get("transpose", False))
        ),
        "dot_general": lambda how, a, b: jax.lax.dot_general(
            a,
            b,
            (
                ([axis % a.ndim for axis in how["lhs_contract"]], [axis % b.ndim for axis in how["rhs_contract"]]),
                ([axis % a.ndim for axis in how["lhs_batch"]], [axis % b.ndim for axis in how["rhs_batch"]]),
            ),
        ),
        "gather_nd": lambda how, x, i: x[tuple(jnp.moveaxis(i, -1, 0))],
        "scatter_nd": lambda how, x, i, u: getattr(x.at[tuple(jnp.moveaxis(i, -1, 0))], how.get("kind", "set"))(u),
        "one_hot": lambda how, i: jax.nn.one_hot(i, how["depth"], axis=how.get("axis", -1), dtype=jnp.float64),
    }


def in_range(sample: Sample, arrays: list[Any]) -> bool:
    """JAX and PyTorch read indices outside in ways of their own; a repeated index of "set" is nobody's promise."""
    name, how = sample.name.removeprefix("hl."), sample.attributes
    if name == "take_multi":
        return all(int(each.min(initial=0)) >= 0 and int(each.max(initial=0)) < 2 for each in arrays[1:])
    if name in ("take", "take_along_axis"):
        size = arrays[0].size if how.get("axis") is None else arrays[0].shape[how["axis"]]
        return how.get("mode", "clip") == "wrap" or bool((arrays[1] >= -size).all() and (arrays[1] < size).all())
    if name in ("put_along_axis", "gather_nd", "scatter_nd", "add_multi", "set_multi"):
        indices = arrays[2] if name.endswith("multi") else arrays[1]
        adds = name in ("gather_nd", "add_multi") or how.get("kind", "set") == "add"
        leading = not name.endswith("multi") or list(how["axes"]) == [0]
        inside = int(indices.max(initial=0)) < 3 and int(indices.min(initial=0)) >= -3
        return (adds or len(np.unique(indices % 3)) == indices.size) and inside and leading
    return True


def by_torch(function: Library, sample: Sample, arrays: list[Any], seed: int) -> tuple[list[Any], list[Any]]:
    operands = [torch.tensor(np.array(array)) for array in arrays]
    moving = [operand.requires_grad_() for operand in operands if operand.is_floating_point()]
    found = function(dict(sample.attributes), *operands)
    results = list(found) if isinstance(found, (tuple, list)) else [found]
    values = [value.detach().numpy() for value in results]
    upstream = [torch.tensor(np.array(each)) for each in random_like(values, seed)]
    smooth = [value for value in results if value.is_floating_point()]
    if not moving or not smooth or not any(value.requires_grad for value in smooth):
        return values, []
    gradients = torch.autograd.grad(smooth, moving, upstream, allow_unused=True)
    return values, [np.zeros(each.shape) if g is None else g.numpy() for g, each in zip(gradients, moving)]


def by_jax(function: Library, sample: Sample, arrays: list[Any], seed: int) -> tuple[list[Any], list[Any]]:
    places = [index for index, array in enumerate(arrays) if array.dtype.kind == "f"]

    def call(*moving: Any) -> Any:
        operands = [jnp.asarray(array) for array in arrays]
        for index, value in zip(places, moving):
            operands[index] = value
        return function(dict(sample.attributes), *operands)

    value, pull = jax.vjp(call, *[jnp.asarray(arrays[index]) for index in places])
    values = [np.asarray(value)]
    return values, [np.asarray(each) for each in pull(jnp.asarray(random_like(values, seed)[0]))] if places else []


def main() -> None:
    tables = [("torch", by_torch, torch_table()), ("jax", by_jax, jax_table())]
    index: dict[str, Any] = {}
    stored: list[Any] = []
    size = 0
    chosen = [
        each for each in SAMPLES if each.has_float and all(dim != "0" for text in each.operands for dim in text.split(":")[0].split("x"))
    ]
    for library, run, table in tables:
        for sample in few([each for each in chosen if each.name.removeprefix("hl.") in table and in_range(each, arrays_of(each))], 4):
            name = sample.name.removeprefix("hl.")
            arrays = arrays_of(sample)
            if name == "norm" and len(sample.attributes.get("axes", [0])) != 1:
                continue
            if name == "std" and not sample.operands[0]:
                continue
            if name == "pad" and not sample.operands[0]:
                continue
            if name == "pad" and min([0, *sample.attributes["low"], *sample.attributes["high"]]) < 0:
                continue
            try:
                values, gradients = run(table[name], sample, arrays, 1)
            except NotThere:
                continue
            except Exception as problem:
                raise RuntimeError(f"{library}: {sample.label}") from problem
            entry: dict[str, Any] = {"library": library, "arrays": [], "values": [], "gradients": []}
            for kind, group in (("arrays", arrays), ("values", values), ("gradients", gradients)):
                for array in group:
                    array = np.asarray(array)
                    entry[kind].append([size, array.dtype.str, list(array.shape)])
                    stored.append(np.ravel(array).astype(np.float64))
                    size += array.size
            index[sample.label] = entry
            assert len(floats(arrays)) == len(gradients) or not gradients
    np.savez_compressed(TARGET, index=np.array(json.dumps(index)), values=np.concatenate(stored))
    print(f"{TARGET.name}: {len(index)} cases of {len({label.split()[0] for label in index})} ops, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
