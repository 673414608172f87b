"""The programs of `programs/*.ir` as JAX and PyTorch write them, with the same arguments: value and gradient, float32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray


@dataclass
class Workload:
    """Arguments (in the order of the IR function), which of them are differentiated, and the function in both libraries."""

    arguments: list[Array]
    wrt: Sequence[int]
    jax: Callable[..., Any]
    torch: Callable[..., Any]


def normal(generator: np.random.Generator, *shape: int, scale: float = 1.0) -> Array:
    """Normal numbers in float32."""
    return (generator.standard_normal(shape) * scale).astype(np.float32)


def cross_entropy_jax(logits: Any, labels: Any) -> Any:
    """Mean of -log softmax at the labels."""
    import jax
    import jax.numpy as jnp

    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1))


def layer_norm_jax(x: Any, gamma: Any, beta: Any) -> Any:
    """Layer normalisation over the last axis."""
    import jax

    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * gamma + beta


def attention_jax(q: Any, k: Any, v: Any) -> Any:
    """Causal attention of [B, H, S, D]."""
    import jax
    import jax.numpy as jnp

    length = q.shape[2]
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.float32(np.sqrt(q.shape[3]))
    scores = jnp.where(np.tril(np.ones((length, length), bool)), scores, -jnp.inf)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), v)


def gelu_1m() -> Workload:
    import jax
    import jax.numpy as jnp
    from torch.nn import functional

    x = normal(np.random.default_rng(0), 1 << 20)
    return Workload([x], [0], lambda x: jnp.sum(jax.nn.gelu(x, approximate=True) ** 2),
                    lambda x: (functional.gelu(x, approximate="tanh") ** 2).sum())


def softmax_xent_256x8192() -> Workload:
    from torch.nn import functional

    generator = np.random.default_rng(1)
    return Workload([normal(generator, 256, 8192), generator.integers(0, 8192, 256)], [0], cross_entropy_jax, functional.cross_entropy)


def layernorm_2048x1024() -> Workload:
    import jax.numpy as jnp
    from torch.nn import functional

    g = np.random.default_rng(2)
    return Workload([normal(g, 2048, 1024), normal(g, 1024), normal(g, 1024), normal(g, 2048, 1024)], [0, 1, 2],
                    lambda x, gamma, beta, w: jnp.sum(layer_norm_jax(x, gamma, beta) * w),
                    lambda x, gamma, beta, w: (functional.layer_norm(x, (1024,), gamma, beta) * w).sum())


def mlp_128x784() -> Workload:
    import jax
    import torch
    from torch.nn import functional

    g = np.random.default_rng(3)
    arguments = [normal(g, 128, 784), normal(g, 784, 512, scale=0.05), normal(g, 512), normal(g, 512, 256, scale=0.05), normal(g, 256),
                 normal(g, 256, 10, scale=0.05), normal(g, 10), g.integers(0, 10, 128)]

    def in_jax(x: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any, labels: Any) -> Any:
        return cross_entropy_jax(jax.nn.relu(jax.nn.relu(x @ w1 + b1) @ w2 + b2) @ w3 + b3, labels)

    def in_torch(x: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any, labels: Any) -> Any:
        return functional.cross_entropy(torch.relu(torch.relu(x @ w1 + b1) @ w2 + b2) @ w3 + b3, labels)

    return Workload(arguments, range(1, 7), in_jax, in_torch)


def cnn_32x28x28() -> Workload:
    import jax
    import jax.numpy as jnp
    import torch
    from torch.nn import functional

    g = np.random.default_rng(4)
    arguments = [normal(g, 32, 1, 28, 28), normal(g, 32, 1, 5, 5, scale=0.1), normal(g, 64, 32, 5, 5, scale=0.05),
                 normal(g, 3136, 10, scale=0.02), g.integers(0, 10, 32)]

    def pooled(x: Any, w: Any) -> Any:
        y = jax.nn.relu(jax.lax.conv_general_dilated(x, w, (1, 1), "SAME"))
        return jax.lax.reduce_window(y, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    def in_jax(x: Any, w1: Any, w2: Any, w3: Any, labels: Any) -> Any:
        return cross_entropy_jax(pooled(pooled(x, w1), w2).reshape(32, -1) @ w3, labels)

    def in_torch(x: Any, w1: Any, w2: Any, w3: Any, labels: Any) -> Any:
        h = functional.max_pool2d(torch.relu(functional.conv2d(x, w1, padding=2)), 2)
        h = functional.max_pool2d(torch.relu(functional.conv2d(h, w2, padding=2)), 2)
        return functional.cross_entropy(h.reshape(32, -1) @ w3, labels)

    return Workload(arguments, [1, 2, 3], in_jax, in_torch)


def transformer_4x128x256() -> Workload:
    import jax
    import jax.numpy as jnp
    from torch.nn import functional

    batch, length, width, heads = 4, 128, 256, 8
    g = np.random.default_rng(5)
    arguments = [normal(g, batch, length, width), normal(g, width, 3 * width, scale=0.05), normal(g, width, width, scale=0.05),
                 normal(g, width, 4 * width, scale=0.05), normal(g, 4 * width, width, scale=0.05),
                 *(normal(g, width) for _ in range(4))]

    def in_jax(x: Any, wqkv: Any, wo: Any, w1: Any, w2: Any, g1: Any, b1: Any, g2: Any, b2: Any) -> Any:
        parts = jnp.split(layer_norm_jax(x, g1, b1) @ wqkv, 3, -1)
        q, k, v = (z.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3) for z in parts)
        x = x + attention_jax(q, k, v).transpose(0, 2, 1, 3).reshape(batch, length, width) @ wo
        return jnp.mean((x + jax.nn.gelu(layer_norm_jax(x, g2, b2) @ w1, approximate=True) @ w2) ** 2)

    def in_torch(x: Any, wqkv: Any, wo: Any, w1: Any, w2: Any, g1: Any, b1: Any, g2: Any, b2: Any) -> Any:
        parts = (functional.layer_norm(x, (width,), g1, b1) @ wqkv).split(width, -1)
        q, k, v = (z.reshape(batch, length, heads, width // heads).transpose(1, 2) for z in parts)
        a = functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, width)
        x = x + a @ wo
        return ((x + functional.gelu(functional.layer_norm(x, (width,), g2, b2) @ w1, approximate="tanh") @ w2) ** 2).mean()

    return Workload(arguments, range(9), in_jax, in_torch)


def attention_8x1024x64() -> Workload:
    import jax.numpy as jnp
    from torch.nn import functional

    g = np.random.default_rng(6)
    return Workload([normal(g, 1, 8, 1024, 64) for _ in range(4)], [0, 1, 2], lambda q, k, v, w: jnp.sum(attention_jax(q, k, v) * w),
                    lambda q, k, v, w: (functional.scaled_dot_product_attention(q, k, v, is_causal=True) * w).sum())


def rnn_100x32x128() -> Workload:
    import jax
    import jax.numpy as jnp
    import torch

    g = np.random.default_rng(7)
    arguments = [normal(g, 100, 32, 64), normal(g, 64, 128, scale=0.1), normal(g, 128, 128, scale=0.05), normal(g, 128),
                 normal(g, 32, 128)]

    def in_jax(xs: Any, wx: Any, wh: Any, b: Any, h: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            carry = jnp.tanh(x @ wx + carry @ wh + b)
            return carry, carry
        return jnp.mean(jax.lax.scan(step, h, xs)[1] ** 2)

    def in_torch(xs: Any, wx: Any, wh: Any, b: Any, h: Any) -> Any:
        states = []
        for x in xs:
            h = torch.tanh(x @ wx + h @ wh + b)
            states.append(h)
        return (torch.stack(states) ** 2).mean()

    return Workload(arguments, [1, 2, 3], in_jax, in_torch)


def embedding_32kx128() -> Workload:
    import jax.numpy as jnp

    g = np.random.default_rng(8)
    return Workload([normal(g, 32000, 128), g.integers(0, 32000, 4096), normal(g, 4096, 128)], [0],
                    lambda w, index, t: jnp.sum((w[index] - t) ** 2), lambda w, index, t: ((w[index] - t) ** 2).sum())


def small_16() -> Workload:
    import jax.numpy as jnp
    import torch

    return Workload([normal(np.random.default_rng(9), 16)], [0], lambda x: jnp.sum(jnp.sin(x) * x), lambda x: (torch.sin(x) * x).sum())


WORKLOADS: dict[str, Callable[[], Workload]] = {
    function.__name__: function for function in (
        gelu_1m, softmax_xent_256x8192, layernorm_2048x1024, mlp_128x784, cnn_32x28x28, transformer_4x128x256, attention_8x1024x64,
        rnn_100x32x128, embedding_32kx128, small_16)}


def jax_step(workload: Workload) -> Callable[[], Any]:
    """Value and gradients by `jax.jit`, as a call without arguments that waits for the result."""
    import jax

    arguments = [jax.numpy.asarray(argument) for argument in workload.arguments]
    step = jax.jit(jax.value_and_grad(workload.jax, argnums=tuple(workload.wrt)))
    return lambda: jax.block_until_ready(step(*arguments))


def torch_step(workload: Workload, compiled: bool = False) -> Callable[[], Any]:
    """Value and gradients by PyTorch, eager or through `torch.compile`."""
    import torch

    tensors = [torch.from_numpy(argument).clone() for argument in workload.arguments]
    for position in workload.wrt:
        tensors[position].requires_grad_(True)
    function = torch.compile(workload.torch) if compiled else workload.torch

    def step() -> Any:
        loss = function(*tensors)
        return loss, torch.autograd.grad(loss, [tensors[position] for position in workload.wrt])

    return step
