"""Where operations come from: the names that TVM Relax, MegEngine, rlx and tinygrad have for them.

These four systems were the starting point: whatever their gradient rules name is here, under these names. `--help-op` and the
pages of the dialects show them. A test differentiates and compiles each.
"""

from __future__ import annotations

from functools import cache

__all__ = ["ORIGINS", "origins_of"]

# a system -> its operation: the operations here that do the same, the first being the one to use
ORIGINS: dict[str, dict[str, str]] = {
    "TVM Relax": {
        "relax.add": "hl.add", "relax.subtract": "hl.subtract", "relax.multiply": "hl.multiply", "relax.divide": "hl.divide",
        "relax.power": "hl.power", "relax.maximum": "hl.maximum", "relax.minimum": "hl.minimum", "relax.equal": "hl.equal",
        "relax.greater": "hl.greater", "relax.greater_equal": "hl.greater_equal", "relax.less": "hl.less",
        "relax.less_equal": "hl.less_equal", "relax.not_equal": "hl.not_equal", "relax.zeros_like": "hl.zeros_like",
        "relax.ones_like": "hl.ones_like", "relax.full_like": "hl.full_like", "relax.zeros": "hl.zeros", "relax.ones": "hl.ones",
        "relax.full": "hl.full", "relax.triu": "hl.triu", "relax.abs": "hl.abs", "relax.cos": "hl.cos", "relax.exp": "hl.exp",
        "relax.log": "hl.log", "relax.negative": "hl.neg", "relax.sigmoid": "hl.sigmoid", "relax.sin": "hl.sin",
        "relax.sqrt": "hl.sqrt", "relax.tanh": "hl.tanh", "relax.sum": "hl.sum", "relax.mean": "hl.mean",
        "relax.variance": "hl.variance", "relax.permute_dims": "hl.permute_dims", "relax.concat": "hl.concat",
        "relax.split": "hl.split", "relax.expand_dims": "hl.expand_dims", "relax.squeeze": "hl.squeeze",
        "relax.flatten": "hl.flatten", "relax.reshape": "hl.reshape", "relax.cumsum": "hl.cumsum bwd.cumsum",
        "relax.broadcast_to": "hl.broadcast_to", "relax.collapse_sum_to": "hl.collapse_sum_to", "relax.take": "hl.take",
        "relax.grad.take_backward": "bwd.take", "relax.strided_slice": "hl.strided_slice", "relax.where": "hl.where",
        "relax.matmul": "hl.matmul", "relax.astype": "hl.cast", "relax.nn.relu": "hl.relu bwd.relu",
        "relax.nn.silu": "hl.silu bwd.activation", "relax.nn.softmax": "hl.softmax bwd.softmax",
        "relax.nn.log_softmax": "hl.log_softmax bwd.log_softmax",
        "relax.nn.cross_entropy_with_logits": "hl.cross_entropy_with_logits", "relax.nn.nll_loss": "hl.nll_loss",
        "relax.grad.nll_loss_backward": "bwd.nll_loss", "relax.nn.conv2d": "hl.conv2d bwd.conv2d_input bwd.conv2d_weight",
        "relax.nn.conv2d_transpose": "hl.conv2d_transpose", "relax.nn.max_pool2d": "hl.max_pool2d",
        "relax.grad.max_pool2d_backward": "bwd.max_pool2d", "relax.nn.avg_pool2d": "hl.avg_pool2d",
        "relax.grad.avg_pool2d_backward": "bwd.avg_pool2d", "relax.grad.no_grad": "hl.stop_gradient",
        "relax.grad.start_checkpoint": "hl.checkpoint_begin", "relax.grad.end_checkpoint": "hl.checkpoint_end",
        "relax.call_tir_with_grad": "func.call", "relax.transform.Gradient": "ad.grad ad.value_and_grad",
    },
    "MegEngine": {
        "GetVarShape": "hl.dim", "Elemwise": "hl.add", "Reduce": "hl.sum hl.mean hl.max hl.min hl.prod hl.collapse_sum_to",
        "Reshape": "hl.reshape", "Broadcast": "hl.broadcast_to", "MatrixMul": "hl.matmul", "BatchedMatrixMul": "hl.matmul",
        "Subtensor": "hl.strided_slice hl.dynamic_slice", "SetSubtensor": "hl.set_slice hl.dynamic_update_slice",
        "IndexingMultiAxisVec": "hl.take_multi", "IndexingIncrMultiAxisVec": "hl.add_multi bwd.take_multi",
        "AddAxis": "hl.expand_dims", "RemoveAxis": "hl.squeeze", "IndexingOneHot": "hl.indexing_one_hot bwd.indexing_one_hot",
        "IndexingSetOneHot": "hl.set_one_hot", "FastpathCopy": "hl.copy", "PixelShuffle": "hl.pixel_shuffle",
        "PixelShuffleBackward": "bwd.pixel_shuffle", "Concat": "hl.concat", "WarpAffine": "hl.warp_affine",
        "WarpPerspective": "hl.warp_perspective", "WarpPerspectiveBackwardData": "bwd.warp_perspective_data bwd.warp_affine_data",
        "WarpPerspectiveBackwardMat": "bwd.warp_perspective_mat bwd.warp_affine_mat",
    },
    "rlx": {
        "Activation": "hl.relu hl.gelu hl.silu", "ActivationBackward": "bwd.activation", "ReluBackward": "bwd.relu",
        "Binary": "hl.add hl.multiply", "Reduce": "hl.sum", "Conv": "hl.conv2d prim.conv",
        "Conv2dBackwardInput": "bwd.conv2d_input", "Conv2dBackwardWeight": "bwd.conv2d_weight", "Im2Col": "prim.unfold",
        "MaxPool2dBackward": "bwd.max_pool2d", "LayerNormBackwardInput": "bwd.layer_norm_input",
        "LayerNormBackwardGamma": "bwd.layer_norm_gamma", "RmsNormBackwardInput": "bwd.rms_norm_input",
        "RmsNormBackwardGamma": "bwd.rms_norm_gamma", "RmsNormBackwardBeta": "bwd.rms_norm_beta",
        "GroupNormBackwardInput": "bwd.group_norm_input", "GroupNormBackwardGamma": "bwd.group_norm_gamma",
        "GroupNormBackwardBeta": "bwd.group_norm_beta", "Attention": "hl.attention", "AttentionBackward": "bwd.attention",
        "RopeBackward": "bwd.rope", "CumsumBackward": "bwd.cumsum", "GatherBackward": "bwd.gather",
        "SoftmaxCrossEntropyBackward": "bwd.softmax_cross_entropy", "FakeQuantizeBackward": "bwd.fake_quantize",
        "Scan": "hl.scan prim.scan", "ScanBackward": "bwd.scan", "ScanBackwardXs": "bwd.scan_xs", "Constant": "hl.constant",
    },
    "tinygrad": {
        "CAST": "prim.cast", "RECIPROCAL": "prim.recip", "SIN": "prim.sin", "LOG2": "prim.log2", "EXP2": "prim.exp2",
        "SQRT": "prim.sqrt", "CMPLT": "prim.cmp", "CMPNE": "prim.cmp", "ADD": "prim.add", "POW": "prim.pow", "MAX": "prim.max",
        "MUL": "prim.mul", "WHERE": "prim.select", "REDUCE_AXIS": "prim.reduce", "CONTIGUOUS": "prim.contiguous",
        "CONTIGUOUS_BACKWARD": "hl.contiguous_backward", "RESHAPE": "prim.reshape", "EXPAND": "prim.expand", "PAD": "prim.pad",
        "SHRINK": "prim.slice", "PERMUTE": "prim.permute", "FLIP": "prim.flip", "COPY": "prim.copy",
        "MULTI": "hl.shard hl.unshard", "TUPLE": "func.return", "GETTUPLE": "func.call", "AFTER": "prim.barrier",
        "CALL": "func.call prim.call", "BITCAST": "prim.bitcast", "DETACH": "prim.stop_gradient",
    },
}  # fmt: skip


@cache
def _places() -> dict[str, list[str]]:
    """An operation here -> what it is called elsewhere."""
    found: dict[str, list[str]] = {}
    for system, names in ORIGINS.items():
        for theirs, ours in names.items():
            for name in ours.split():
                found.setdefault(name, []).append(f"{theirs} ({system})")
    return found


def origins_of(name: str) -> list[str]:
    """What an operation is called elsewhere: `["relax.take (TVM Relax)"]`."""
    return list(_places().get(name, ()))
