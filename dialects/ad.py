"""`ad`: asking for a derivative inside the IR. The pass `autodiff` replaces these ops by calls of the functions that it writes.

They nest to any depth and across calls. `wrt` names argument positions (default: all float arguments). In grad, value_and_grad
and hvp there are no cotangents where the function's only result is one rank-0 float (its cotangent is 1); elsewhere, and
always in
vjp, there is one for each float result.
"""

from __future__ import annotations

from gradopt.dialects.constraints import ANY_TENSOR
from gradopt.ir.attribute_kinds import INTEGERS, SYMBOL_REFERENCE
from gradopt.ir.declare import PURE, attribute, variadic, variadic_result
from gradopt.ir.dialect import Dialect, declared_operations
from gradopt.ir.operation import Operation


class DerivativeOp(Operation):
    """Base of the requests: operands, the function, the argument positions, results."""

    __slots__ = ()
    values = variadic(ANY_TENSOR)
    callee = attribute(SYMBOL_REFERENCE)
    wrt = attribute(INTEGERS, optional=True)
    outputs = variadic_result(ANY_TENSOR)
    traits = frozenset({PURE})


class GradOp(DerivativeOp):
    """ad.grad @f(args…, cotangents…){wrt} -> gradients…"""

    __slots__ = ()
    name = "ad.grad"


class ValueAndGradOp(DerivativeOp):
    """ad.value_and_grad @f(args…, cotangents…){wrt} -> results…, gradients…"""

    __slots__ = ()
    name = "ad.value_and_grad"


class VjpOp(DerivativeOp):
    """ad.vjp @f(args…, cotangents…){wrt} -> results…, gradients…"""

    __slots__ = ()
    name = "ad.vjp"


class JvpOp(DerivativeOp):
    """ad.jvp @f(args…, tangents of wrt…){wrt} -> results…, a tangent for each float result…"""

    __slots__ = ()
    name = "ad.jvp"


class HvpOp(DerivativeOp):
    """ad.hvp @f(args…, direction of wrt…, cotangents…){wrt} -> results…, gradients…, Hessian-vector products…"""

    __slots__ = ()
    name = "ad.hvp"


DIALECT = Dialect("ad", declared_operations(globals()), __doc__ or "")
