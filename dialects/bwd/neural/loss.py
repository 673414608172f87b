"""Adjoints of the losses."""

from __future__ import annotations

from gradopt.dialects.arrays import Array, widen
from gradopt.dialects.constraints import ANY_TENSOR, FLOAT_TENSOR, INTEGER_TENSOR, check_dims, same_element, tensor_type
from gradopt.dialects.hl.neural.common import masked_product
from gradopt.dialects.hl.neural.loss import REDUCTION, check_cross_entropy, check_labels, check_nll, class_axis, nll_terms
from gradopt.ir.attribute_kinds import INTEGER, UNIT
from gradopt.ir.declare import PURE, attribute, operand, optional_operand, result
from gradopt.ir.operation import Operation
from gradopt.ir.types import Type, tensor


class SoftmaxCrossEntropyOp(Operation):
    """d logits[n, c] = (softmax(logits[n])[c] - (c == labels[n])) * dloss[n].

    logits [N, C], labels [N] integers in [0, C) (else a run-time error that names the label), dloss [N], result [N, C].
    A preserved kernel may keep each row's maximum and sum of exponentials from the forward op.
    """

    __slots__ = ()
    name = "bwd.softmax_cross_entropy"
    logits = operand(FLOAT_TENSOR)
    labels = operand(INTEGER_TENSOR)
    dloss = operand(FLOAT_TENSOR)
    masked = attribute(UNIT, optional=True)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        same_element(logits=self.logits, dloss=self.dloss)
        _, batch = check_cross_entropy(self)
        check_dims("dloss", self.dloss, batch)
        return [self.logits.type]

    def evaluate(self, logits: Array, labels: Array, dloss: Array) -> Array:
        import numpy as np

        check_labels(self.name, labels, logits.shape[1])
        wide = widen(logits)
        largest = wide.max(axis=1, keepdims=True, initial=-np.inf)
        exponentials = np.exp(wide - np.where(np.isinf(largest), 0, largest))
        slope = exponentials / exponentials.sum(axis=1, keepdims=True)
        slope[np.arange(len(labels)), labels.astype(np.int64)] -= 1
        return masked_product(self.masked)(widen(dloss)[:, None], slope).astype(logits.dtype)


class NllLossOp(Operation):
    """dpred of `hl.nll_loss`: -weights[t] * dy at each kept target's class, 0 elsewhere; with "mean" divided by the
    kept weights' sum.

    dy has the shape of the loss. Where every target is ignored (that sum is 0) the gradient of "mean" is 0.
    """

    __slots__ = ()
    name = "bwd.nll_loss"
    dy = operand(FLOAT_TENSOR)
    pred = operand(FLOAT_TENSOR)
    targets = operand(INTEGER_TENSOR)
    weights = optional_operand(FLOAT_TENSOR)
    reduction = attribute(REDUCTION, default="mean")
    ignore_index = attribute(INTEGER, default=-100)
    masked = attribute(UNIT, optional=True)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        same_element(dy=self.dy, pred=self.pred)
        targets = check_nll(self, tensor_type(self.pred))
        check_dims("dy", self.dy, targets if self.reduction == "none" else [])
        return [self.pred.type]

    def evaluate(self, dy: Array, pred: Array, targets: Array, weights: Array | None = None) -> Array:
        import numpy as np

        index, weight, kept = nll_terms(self.name, pred, targets, weights, self.ignore_index)
        if self.reduction == "mean":
            divisor = weight.sum()
            weight = weight / divisor if divisor != 0 else np.zeros_like(weight)
        value = np.where(kept, -masked_product(self.masked)(widen(dy), weight), weight.dtype.type(0))
        axis = class_axis(pred.ndim)
        out = np.zeros(pred.shape, value.dtype)
        if pred.shape[axis]:
            np.put_along_axis(out, np.expand_dims(index, axis), np.expand_dims(value, axis), axis)
        return out.astype(pred.dtype)


class NllLossWeightsOp(Operation):
    """dweights of `hl.nll_loss`: for each class c the sum of -pred[t] * dy over the kept targets t = c.

    With "mean" it is the sum of -(pred[t] + loss) * dy / W, where W is the sum of the kept weights (0 where W is 0).
    """

    __slots__ = ()
    name = "bwd.nll_loss_weights"
    dy = operand(FLOAT_TENSOR)
    pred = operand(FLOAT_TENSOR)
    targets = operand(INTEGER_TENSOR)
    weights = operand(FLOAT_TENSOR)
    reduction = attribute(REDUCTION, default="mean")
    ignore_index = attribute(INTEGER, default=-100)
    masked = attribute(UNIT, optional=True)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        same_element(dy=self.dy, pred=self.pred)
        pred = tensor_type(self.pred)
        targets = check_nll(self, pred)
        check_dims("dy", self.dy, targets if self.reduction == "none" else [])
        return [tensor([pred.dims[class_axis(pred.rank)]], pred.element)]

    def evaluate(self, dy: Array, pred: Array, targets: Array, weights: Array) -> Array:
        import numpy as np

        index, weight, kept = nll_terms(self.name, pred, targets, weights, self.ignore_index)
        axis = class_axis(pred.ndim)
        slope = -np.take_along_axis(widen(pred), np.expand_dims(index, axis), axis).squeeze(axis)
        if self.reduction == "mean":
            divisor = weight.sum()
            loss = np.where(kept, weight * slope, 0).sum() / divisor if divisor != 0 else divisor
            slope = (slope - loss) / divisor if divisor != 0 else np.zeros_like(slope)
        value = np.where(kept, masked_product(self.masked)(widen(dy), slope), slope.dtype.type(0))
        out = np.zeros(weights.shape, slope.dtype)
        np.add.at(out, index, value)
        return out.astype(pred.dtype)
