"""Losses: cross entropies and the negative log likelihood. A class label out of range is a run-time error that names
it."""

from __future__ import annotations

from gradopt.dialects.arrays import Array, widen
from gradopt.dialects.constraints import (
    ANY_TENSOR,
    FLOAT_TENSOR,
    INTEGER_TENSOR,
    check_dims,
    same_element,
    same_shape,
    shape_text,
    tensor_type,
)
from gradopt.ir.attribute_kinds import INTEGER, enumeration
from gradopt.ir.declare import PURE, InvalidOperation, attribute, operand, optional_operand, result
from gradopt.ir.operation import Operation
from gradopt.ir.sizes import Size
from gradopt.ir.types import TensorType, Type, tensor


def label_message(name: str, classes: Size, ignore_index: int | None = None) -> str:
    """The run-time error of a class label, in the name of the forward op; the offending label follows."""
    bound = classes if isinstance(classes, int) else "number of classes"
    beside = "" if ignore_index is None else f" and not ignore_index ({ignore_index})"
    return f"{name.split('.', 1)[1].removesuffix('_weights')}: class label out of range [0, {bound}){beside}"


def check_labels(name: str, labels: Array, classes: int, ignore_index: int | None = None) -> Array:
    """The mask of labels that count. Raises ValueError for one that is neither a class nor `ignore_index`."""
    import numpy as np

    kept = np.ones(labels.shape, np.bool_) if ignore_index is None else labels != ignore_index
    wrong = kept & ((labels < 0) | (labels >= classes))
    if wrong.any():
        place = np.unravel_index(int(np.argmax(wrong)), labels.shape)
        raise ValueError(f"{label_message(name, classes, ignore_index)}: {labels[place]} at {list(map(int, place))}")
    return kept


def check_cross_entropy(op: Operation) -> tuple[TensorType, list[Size]]:
    """(type of the logits, [N]). Raises InvalidOperation unless logits are [N, C] and labels [N]."""
    logits = tensor_type(op.logits)  # type: ignore[attr-defined]
    if logits.rank != 2:
        raise InvalidOperation(f"operand 'logits' has shape {shape_text(logits)}, expected rank 2: [N, C]")
    check_dims("labels", op.labels, [logits.dims[0]])  # type: ignore[attr-defined]
    return logits, [logits.dims[0]]


class SoftmaxCrossEntropyOp(Operation):
    """The cross entropy of softmax(logits) with integer class labels: loss[n] = logsumexp(logits[n]) - logits[n,
    labels[n]].

    logits [N, C] floats, labels [N] integers, result [N]. A label outside [0, C) is a run-time error that names it.
    Computed without overflow from the row's maximum. d loss[n] / d logits[n] = softmax(logits[n]) - onehot(labels[n])
    (`bwd.softmax_cross_entropy`).
    """

    __slots__ = ()
    name = "hl.softmax_cross_entropy"
    logits = operand(FLOAT_TENSOR)
    labels = operand(INTEGER_TENSOR)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        logits, batch = check_cross_entropy(self)
        return [tensor(batch, logits.element)]

    def evaluate(self, logits: Array, labels: Array) -> Array:
        import numpy as np

        check_labels(self.name, labels, logits.shape[1])
        wide = widen(logits)
        largest = wide.max(axis=1, keepdims=True, initial=-np.inf)
        shifted = wide - np.where(np.isinf(largest), 0, largest)
        picked = shifted[np.arange(len(labels)), labels.astype(np.int64)]
        return (np.log(np.exp(shifted).sum(axis=1)) - picked).astype(logits.dtype)


class CrossEntropyWithLogitsOp(Operation):
    """-sum(x * y), divided by the batch size (the first dimension) when the rank is above 1. No softmax: x holds
    log-probabilities.

    x and y have one shape; the result has rank 0. d/dx = -dy * y / N, d/dy = -dy * x / N.
    """

    __slots__ = ()
    name = "hl.cross_entropy_with_logits"
    x = operand(FLOAT_TENSOR)
    y = operand(FLOAT_TENSOR)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        element = same_element(x=self.x, y=self.y)
        if not same_shape(x=self.x, y=self.y):
            raise InvalidOperation("takes tensors of rank 1 or more, found rank 0")
        return [tensor((), element)]

    def evaluate(self, x: Array, y: Array) -> Array:
        total = -(widen(x) * widen(y)).sum()
        return (total / x.shape[0] if x.ndim > 1 else total).astype(x.dtype)


REDUCTION = enumeration("mean", "sum", "none")


def check_nll(op: Operation, pred: TensorType) -> list[Size]:
    """The shape of the targets: pred's without its class axis. Raises InvalidOperation."""
    if pred.rank < 1:
        raise InvalidOperation("operand 'pred' has rank 0, expected [C], [N, C] or [N, C, d1, …]")
    same_element(pred=op.pred, **({} if op.weights is None else {"weights": op.weights}))  # type: ignore[attr-defined]
    axis = class_axis(pred.rank)
    targets = [*pred.dims[:axis], *pred.dims[axis + 1:]]
    check_dims("targets", op.targets, targets)  # type: ignore[attr-defined]
    if op.weights is not None:  # type: ignore[attr-defined]
        check_dims("weights", op.weights, [pred.dims[axis]])  # type: ignore[attr-defined]
    return targets


def class_axis(rank: int) -> int:
    """Where the classes lie: axis 0 of [C], axis 1 of [N, C, …]."""
    return min(rank - 1, 1)


def nll_terms(name: str, pred: Array, targets: Array, weights: Array | None, ignore_index: int) -> tuple[Array, Array, Array]:
    """(class index with 0 for ignored targets, weight of each target with 0 for ignored ones, mask of kept ones)."""
    import numpy as np

    axis = class_axis(pred.ndim)
    kept = check_labels(name, targets, pred.shape[axis], ignore_index)
    index = np.where(kept, targets, 0).astype(np.int64)
    if not pred.shape[axis]:
        return index, np.zeros(targets.shape, widen(pred).dtype), kept
    own = np.ones(pred.shape[axis], widen(pred).dtype) if weights is None else widen(weights)
    return index, np.where(kept, own[index], own.dtype.type(0)), kept


class NllLossOp(Operation):
    """The negative log likelihood of integer targets: loss = -weights[t] * pred[t] for each target t, 0 where t is
    `ignore_index`.

    pred [C], [N, C] or [N, C, d1, …] holds log-probabilities; targets have its shape without C; weights [C] default to
    1. reduction "none": one loss a target; "sum": their sum; "mean": the sum divided by the sum of weights[t] over the
    kept targets, and 0 with gradient 0 where that sum is 0 (every target ignored). A target out of range that is not
    `ignore_index` is a run-time error that names it. d/dpred: `bwd.nll_loss`; d/dweights: `bwd.nll_loss_weights`.
    """

    __slots__ = ()
    name = "hl.nll_loss"
    pred = operand(FLOAT_TENSOR)
    targets = operand(INTEGER_TENSOR)
    weights = optional_operand(FLOAT_TENSOR)
    reduction = attribute(REDUCTION, default="mean")
    ignore_index = attribute(INTEGER, default=-100)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        pred = tensor_type(self.pred)
        targets = check_nll(self, pred)
        return [tensor(targets if self.reduction == "none" else (), pred.element)]

    def evaluate(self, pred: Array, targets: Array, weights: Array | None = None) -> Array:
        import numpy as np

        index, weight, kept = nll_terms(self.name, pred, targets, weights, self.ignore_index)
        axis = class_axis(pred.ndim)
        picked = np.take_along_axis(widen(pred), np.expand_dims(index, axis), axis).squeeze(axis)
        loss = np.where(kept, -weight * picked, weight.dtype.type(0))
        if self.reduction == "none":
            return loss.astype(pred.dtype)
        total, divisor = loss.sum(), weight.sum()
        if self.reduction == "mean":
            total = total / divisor if divisor != 0 else total.dtype.type(0)
        return total.astype(pred.dtype)
