"""Recurrent cells, filters and integrators as scans in IR, with a length of their own. Matrices are small, numbers near 0."""

from __future__ import annotations

__all__ = ["PROGRAMS", "program"]


def function(arguments: str, body: str, result: str = "tensor<f64>") -> str:
    return f"func.func @f({arguments}) -> {result} {{\n{body}\n}}\n"


RNN = function("%h: tensor<2x4xf64>, %w: tensor<3x4xf64>, %u: tensor<4x4xf64>, %b: tensor<4xf64>, %xs: tensor<Tx2x3xf64>", """
  %last, %hs = hl.scan %h, %w, %u, %b, %xs {length = T, num_carry = 1, num_xs = 1 REVERSE} ({
  ^bb0(%c: tensor<2x4xf64>, %v: tensor<3x4xf64>, %q: tensor<4x4xf64>, %a: tensor<4xf64>, %x: tensor<2x3xf64>):
    %0 = hl.matmul %x, %v
    %1 = hl.matmul %c, %q
    %2 = hl.add %0, %1
    %3 = hl.add %2, %a
    %4 = hl.tanh %3
    hl.yield %4, %4
  })
  %p = hl.multiply %hs, %hs
  %r = hl.add %last, %last
  %s = hl.sum %p
  %t = hl.sum %r
  %y = hl.add %s, %t
  return %y""")

# i, f, g, o in one product; two carries
LSTM = function("%h: tensor<2x4xf64>, %m: tensor<2x4xf64>, %w: tensor<3x16xf64>, %u: tensor<4x16xf64>, %b: tensor<16xf64>, %xs: tensor<Tx2x3xf64>", """
  %last, %cell, %hs = hl.scan %h, %m, %w, %u, %b, %xs {length = T, num_carry = 2, num_xs = 1 REVERSE} ({
  ^bb0(%c: tensor<2x4xf64>, %k: tensor<2x4xf64>, %v: tensor<3x16xf64>, %q: tensor<4x16xf64>, %a: tensor<16xf64>, %x: tensor<2x3xf64>):
    %0 = hl.matmul %x, %v
    %1 = hl.matmul %c, %q
    %2 = hl.add %0, %1
    %3 = hl.add %2, %a
    %4 = hl.strided_slice %3 {begin = [0, 0], end = [2, 4], strides = [1, 1]}
    %5 = hl.strided_slice %3 {begin = [0, 4], end = [2, 8], strides = [1, 1]}
    %6 = hl.strided_slice %3 {begin = [0, 8], end = [2, 12], strides = [1, 1]}
    %7 = hl.strided_slice %3 {begin = [0, 12], end = [2, 16], strides = [1, 1]}
    %i = hl.sigmoid %4
    %f = hl.sigmoid %5
    %g = hl.tanh %6
    %o = hl.sigmoid %7
    %8 = hl.multiply %f, %k
    %9 = hl.multiply %i, %g
    %10 = hl.add %8, %9
    %11 = hl.tanh %10
    %12 = hl.multiply %o, %11
    hl.yield %12, %10, %12
  })
  %p = hl.multiply %hs, %cell
  %s = hl.sum %p
  %t = hl.sum %last
  %y = hl.add %s, %t
  return %y""")

GRU = function("%h: tensor<2x4xf64>, %w: tensor<3x4xf64>, %w1: tensor<3x4xf64>, %u: tensor<4x4xf64>, %u1: tensor<4x4xf64>, %u2: tensor<4x4xf64>, %xs: tensor<Tx2x3xf64>", """
  %last, %hs = hl.scan %h, %w, %w1, %u, %u1, %u2, %xs {length = T, num_carry = 1, num_xs = 1 REVERSE} ({
  ^bb0(%c: tensor<2x4xf64>, %v: tensor<3x4xf64>, %v1: tensor<3x4xf64>, %q: tensor<4x4xf64>, %q1: tensor<4x4xf64>, %q2: tensor<4x4xf64>, %x: tensor<2x3xf64>):
    %0 = hl.matmul %x, %v
    %1 = hl.matmul %c, %q
    %2 = hl.add %0, %1
    %z = hl.sigmoid %2
    %3 = hl.matmul %c, %q1
    %4 = hl.add %3, %0
    %r = hl.sigmoid %4
    %5 = hl.matmul %x, %v1
    %6 = hl.multiply %r, %c
    %7 = hl.matmul %6, %q2
    %8 = hl.add %5, %7
    %n = hl.tanh %8
    %9 = hl.subtract %n, %c
    %10 = hl.multiply %z, %9
    %11 = hl.add %c, %10
    hl.yield %11, %11
  })
  %s = hl.sum %hs
  return %s""")

# a vector as state: products of a matrix and a vector, whose weights' gradients are outer products; logits of each step
VECTORS = function("%h: tensor<4xf64>, %u: tensor<4x4xf64>, %w: tensor<4x3xf64>, %o: tensor<5x4xf64>, %xs: tensor<Tx3xf64>", """
  %last, %ys = hl.scan %h, %u, %w, %o, %xs {length = T, num_carry = 1, num_xs = 1 REVERSE} ({
  ^bb0(%c: tensor<4xf64>, %q: tensor<4x4xf64>, %v: tensor<4x3xf64>, %p: tensor<5x4xf64>, %x: tensor<3xf64>):
    %0 = hl.matmul %q, %c
    %1 = hl.matmul %v, %x
    %2 = hl.add %0, %1
    %3 = hl.tanh %2
    %4 = hl.matmul %p, %3
    %5 = hl.log_softmax %4 {axis = 0}
    hl.yield %3, %5
  })
  %s = hl.sum %ys
  %t = hl.sum %last
  %y = hl.add %s, %t
  return %y""")

# x' = A x, P' = A P A^T + Q, with a measurement: gain by a solver, weights that several products share
KALMAN = function("%x0: tensor<3xf64>, %p0: tensor<3x3xf64>, %a: tensor<3x3xf64>, %q: tensor<3x3xf64>, %hm: tensor<2x3xf64>, %zs: tensor<Tx2xf64>", """
  %at = hl.permute_dims %a {axes = [1, 0]}
  %ht = hl.permute_dims %hm {axes = [1, 0]}
  %xl, %pl, %xs = hl.scan %x0, %p0, %a, %at, %q, %hm, %ht, %zs {length = T, num_carry = 2, num_xs = 1 REVERSE} ({
  ^bb0(%x: tensor<3xf64>, %p: tensor<3x3xf64>, %b: tensor<3x3xf64>, %bt: tensor<3x3xf64>, %r: tensor<3x3xf64>, %h: tensor<2x3xf64>, %hh: tensor<3x2xf64>, %z: tensor<2xf64>):
    %0 = hl.matmul %b, %x
    %1 = hl.matmul %b, %p
    %2 = hl.matmul %1, %bt
    %3 = hl.add %2, %r
    %4 = hl.matmul %h, %3
    %5 = hl.matmul %4, %hh
    %e = hl.eye : tensor<2x2xf64>
    %6 = hl.add %5, %e
    %7 = hl.matmul %h, %0
    %8 = hl.subtract %z, %7
    %9 = hl.solve %6, %8
    %10 = hl.matmul %3, %hh
    %11 = hl.matmul %10, %9
    %12 = hl.add %0, %11
    %13 = hl.solve %6, %4
    %14 = hl.matmul %10, %13
    %15 = hl.subtract %3, %14
    hl.yield %12, %15, %12
  })
  %s = hl.sum %xs
  %t = hl.sum %pl
  %y = hl.add %s, %t
  return %y""")

# Runge and Kutta's method of order 2 for x' = tanh(x W): one weight in two products of a step
INTEGRATOR = function("%x0: tensor<2x4xf64>, %w: tensor<4x4xf64>", """
  %last = hl.scan %x0, %w {length = T, num_carry = 1 REVERSE} ({
  ^bb0(%x: tensor<2x4xf64>, %v: tensor<4x4xf64>):
    %half = hl.constant dense<0.05> : tensor<f64>
    %step = hl.constant dense<0.1> : tensor<f64>
    %0 = hl.matmul %x, %v
    %1 = hl.tanh %0
    %2 = hl.multiply %1, %half
    %3 = hl.add %x, %2
    %4 = hl.matmul %3, %v
    %5 = hl.tanh %4
    %6 = hl.multiply %5, %step
    %7 = hl.add %x, %6
    hl.yield %7
  })
  %y = hl.sum %last
  return %y""")

NESTED = function("%h: tensor<4xf64>, %u: tensor<4x4xf64>, %w: tensor<3x4xf64>, %xs: tensor<Tx3x3xf64>", """
  %last, %hs = hl.scan %h, %u, %w, %xs {length = T, num_carry = 1, num_xs = 1 REVERSE} ({
  ^bb0(%c: tensor<4xf64>, %q: tensor<4x4xf64>, %v: tensor<3x4xf64>, %x: tensor<3x3xf64>):
    %l, %ls = hl.scan %c, %q, %v, %x {length = 3, num_carry = 1, num_xs = 1} ({
    ^bb0(%d: tensor<4xf64>, %q1: tensor<4x4xf64>, %v1: tensor<3x4xf64>, %x1: tensor<3xf64>):
      %0 = hl.matmul %d, %q1
      %1 = hl.matmul %x1, %v1
      %2 = hl.add %0, %1
      %3 = hl.tanh %2
      hl.yield %3, %3
    })
    %4 = hl.matmul %l, %q
    %5 = hl.sin %4
    hl.yield %5, %5
  })
  %s = hl.sum %hs
  return %s""")

# an integer carry chooses a row of the weights; a carry that only sums a loss; rows and stacks that pass through
MIXED = function("%h: tensor<2x3xf64>, %n: tensor<i64>, %w: tensor<3x3xf64>, %e: tensor<5x3xf64>, %xs: tensor<Tx2x3xf64>", """
  %z = hl.constant dense<0.0> : tensor<f64>
  %last, %total, %count, %hs, %ps = hl.scan %h, %z, %n, %w, %e, %xs {length = T, num_carry = 3, num_xs = 1 REVERSE} ({
  ^bb0(%c: tensor<2x3xf64>, %l: tensor<f64>, %i: tensor<i64>, %v: tensor<3x3xf64>, %m: tensor<5x3xf64>, %x: tensor<2x3xf64>):
    %row = hl.take %m, %i {axis = 0}
    %0 = hl.matmul %c, %v
    %1 = hl.add %0, %row
    %2 = hl.matmul %x, %v
    %3 = hl.multiply %1, %2
    %4 = hl.sin %3
    %5 = hl.sum %4
    %6 = hl.add %l, %5
    %one = hl.constant dense<1> : tensor<i64>
    %j = hl.add %i, %one
    hl.yield %4, %6, %j, %4, %2
  })
  %s = hl.sum %hs
  %t = hl.sum %ps
  %u = hl.add %s, %t
  %y = hl.add %u, %total
  return %y""")

PROGRAMS = {"rnn": RNN, "lstm": LSTM, "gru": GRU, "vectors": VECTORS, "kalman": KALMAN, "integrator": INTEGRATOR, "nested": NESTED,
            "mixed": MIXED}


def program(name: str, length: int, reverse: bool = False) -> str:
    """The text of a program that takes `length` steps."""
    text = PROGRAMS[name].replace("<Tx", f"<{length}x").replace("length = T", f"length = {length}")
    return text.replace(" REVERSE", ", reverse = true" if reverse else "")
