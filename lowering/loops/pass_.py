"""`scan-fission` and `scan-residuals`: what need not wait for the steps leaves the loop, what a scan has computed another one reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gradopt.ir.operation import Operation
from gradopt.lowering.loops.fission import split_scans
from gradopt.lowering.loops.residuals import read_residuals
from gradopt.lowering.passes import Pass, PassContext

__all__ = ["ScanFissionPass", "ScanResidualsPass"]


@dataclass(frozen=True)
class ScanFissionPass(Pass):
    """Moves matrix products out of `prim.scan` that need not wait for the steps: one large product takes the place of many small ones.

    - A product of a row of the xs and a constant becomes one product before the scan, whose rows the scan reads.
    - A sum over the steps of products, in a carry that nothing else reads, becomes one product of stacks behind the scan, with the
      steps as one more contracted axis. So do the gradients of weights leave the reverse scan.
    - A product of something and a constant which only stacks depend on becomes one behind the scan, with all that depends on it.

    The new stacks take at most four times what a step carries, reads by row and stacks anyway; else the products stay. So do those of
    scans with checkpoints and of scans of more than 4096 steps, where memory counts most.

    Needs: `prim` (other ops stay). Guarantees: the same values, to the rounding of a sum's order.

    Before:

        func.func @f(%h: tensor<2x4xf32>, %w: tensor<3x4xf32>, %xs: tensor<8x2x3xf32>) -> tensor<2x4xf32> {
          %r = prim.scan %h, %w, %xs {length = 8, num_carry = 1, num_xs = 1} ({
          ^bb0(%c: tensor<2x4xf32>, %v: tensor<3x4xf32>, %x: tensor<2x3xf32>):
            %p = prim.dot %x, %v {lhs_contract = [1], rhs_contract = [0]} : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
            %s = prim.add %c, %p : tensor<2x4xf32>
            %t = prim.tanh %s : tensor<2x4xf32>
            prim.yield %t : tensor<2x4xf32>
          }) : (tensor<2x4xf32>, tensor<3x4xf32>, tensor<8x2x3xf32>) -> tensor<2x4xf32>
          return %r : tensor<2x4xf32>
        }

    After:

        func.func @f(%h: tensor<2x4xf32>, %w: tensor<3x4xf32>, %xs: tensor<8x2x3xf32>) -> tensor<2x4xf32> {
          %0 = prim.dot %xs, %w {lhs_contract = [2], rhs_contract = [0]} : (tensor<8x2x3xf32>, tensor<3x4xf32>) -> tensor<8x2x4xf32>
          %r = prim.scan %h, %0 {length = 8, num_carry = 1, num_xs = 1} ({
          ^bb0(%c: tensor<2x4xf32>, %p: tensor<2x4xf32>):
            %s = prim.add %c, %p : tensor<2x4xf32>
            %t = prim.tanh %s : tensor<2x4xf32>
            prim.yield %t : tensor<2x4xf32>
          }) : (tensor<2x4xf32>, tensor<8x2x4xf32>) -> tensor<2x4xf32>
          return %r : tensor<2x4xf32>
        }

    Before:

        func.func @f(%h: tensor<2x4xf32>, %g: tensor<3x4xf32>, %xs: tensor<8x2x3xf32>) -> (tensor<2x4xf32>, tensor<3x4xf32>) {
          %r, %d = prim.scan %h, %g, %xs {length = 8, num_carry = 2, num_xs = 1} ({
          ^bb0(%c: tensor<2x4xf32>, %a: tensor<3x4xf32>, %x: tensor<2x3xf32>):
            %e = prim.exp %c : tensor<2x4xf32>
            %p = prim.dot %x, %e {lhs_contract = [0], rhs_contract = [0]} : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<3x4xf32>
            %s = prim.add %a, %p : tensor<3x4xf32>
            prim.yield %e, %s : tensor<2x4xf32>, tensor<3x4xf32>
          }) : (tensor<2x4xf32>, tensor<3x4xf32>, tensor<8x2x3xf32>) -> (tensor<2x4xf32>, tensor<3x4xf32>)
          return %r, %d : tensor<2x4xf32>, tensor<3x4xf32>
        }

    After:

        func.func @f(%h: tensor<2x4xf32>, %g: tensor<3x4xf32>, %xs: tensor<8x2x3xf32>) -> (tensor<2x4xf32>, tensor<3x4xf32>) {
          %r, %0 = prim.scan %h {length = 8, num_carry = 1} ({
          ^bb0(%c: tensor<2x4xf32>):
            %e = prim.exp %c : tensor<2x4xf32>
            prim.yield %e, %e : tensor<2x4xf32>, tensor<2x4xf32>
          }) : (tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<8x2x4xf32>)
          %1 = prim.dot %xs, %0 {lhs_contract = [0, 1], rhs_contract = [0, 1]} : (tensor<8x2x3xf32>, tensor<8x2x4xf32>) -> tensor<3x4xf32>
          %2 = prim.add %g, %1 : tensor<3x4xf32>
          return %r, %2 : tensor<2x4xf32>, tensor<3x4xf32>
        }
    """

    name: ClassVar[str] = "scan-fission"

    def run(self, op: Operation, context: PassContext) -> None:
        """Visits the scans, inner ones first, so that what leaves one may leave the next."""
        moved = split_scans(op)
        if moved:
            context.count("products moved", moved)


@dataclass(frozen=True)
class ScanResidualsPass(Pass):
    """Lets a `prim.scan` read what an earlier one of its block has computed in the same rows, where it computes it again.

    The reverse scan of a derivative runs each step again from the kept carries. Where that repeats products, solvers and the like, the
    forward scan stacks what they gave: the cheapest values, by a minimum cut in bytes, from which the rest follows elementwise. The
    new stacks take at most twice what a step of the forward scan carries, reads by row and stacks anyway; what would need more is
    computed again, and so is all in scans with checkpoints and scans of more than 4096 steps.

    Needs: `prim` (other ops stay), after `cse`, so that equal operands are one. Guarantees: the same bits.

    Before:

        func.func @f(%h: tensor<2x4xf32>, %w: tensor<4x4xf32>, %g: tensor<2x4xf32>) -> tensor<2x4xf32> {
          %last, %cs = prim.scan %h, %w {length = 8, num_carry = 1} ({
          ^bb0(%c: tensor<2x4xf32>, %v: tensor<4x4xf32>):
            %p = prim.dot %c, %v {lhs_contract = [1], rhs_contract = [0]} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
            %s = prim.sin %p : tensor<2x4xf32>
            prim.yield %s, %c : tensor<2x4xf32>, tensor<2x4xf32>
          }) : (tensor<2x4xf32>, tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<8x2x4xf32>)
          %r = prim.scan %g, %w, %cs {length = 8, num_carry = 1, num_xs = 1, reverse = true} ({
          ^bb0(%a: tensor<2x4xf32>, %v: tensor<4x4xf32>, %c: tensor<2x4xf32>):
            %p = prim.dot %c, %v {lhs_contract = [1], rhs_contract = [0]} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
            %o = prim.cos %p : tensor<2x4xf32>
            %m = prim.mul %a, %o : tensor<2x4xf32>
            prim.yield %m : tensor<2x4xf32>
          }) : (tensor<2x4xf32>, tensor<4x4xf32>, tensor<8x2x4xf32>) -> tensor<2x4xf32>
          return %r : tensor<2x4xf32>
        }

    After:

        func.func @f(%h: tensor<2x4xf32>, %w: tensor<4x4xf32>, %g: tensor<2x4xf32>) -> tensor<2x4xf32> {
          %last, %0 = prim.scan %h, %w {length = 8, num_carry = 1} ({
          ^bb0(%c: tensor<2x4xf32>, %v: tensor<4x4xf32>):
            %p = prim.dot %c, %v {lhs_contract = [1], rhs_contract = [0]} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
            %s = prim.sin %p : tensor<2x4xf32>
            prim.yield %s, %p : tensor<2x4xf32>, tensor<2x4xf32>
          }) : (tensor<2x4xf32>, tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<8x2x4xf32>)
          %r = prim.scan %g, %0 {length = 8, num_carry = 1, num_xs = 1, reverse = true} ({
          ^bb0(%a: tensor<2x4xf32>, %p: tensor<2x4xf32>):
            %o = prim.cos %p : tensor<2x4xf32>
            %m = prim.mul %a, %o : tensor<2x4xf32>
            prim.yield %m : tensor<2x4xf32>
          }) : (tensor<2x4xf32>, tensor<8x2x4xf32>) -> tensor<2x4xf32>
          return %r : tensor<2x4xf32>
        }
    """

    name: ClassVar[str] = "scan-residuals"

    def run(self, op: Operation, context: PassContext) -> None:
        """Visits the scans in program order, so that a third one reads what the second one keeps."""
        found = read_residuals(op)
        if found:
            context.count("values read", found)
