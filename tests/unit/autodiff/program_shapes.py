"""Programs of every shape that derivatives of whole programs meet: a function `@f` each (see test_program_shapes.py)."""

V, S, N = "tensor<3xf64>", "tensor<f64>", "tensor<i64>"
SQUARE = f"func.func @f(%x: {S}) -> {S} {{\n  %y = hl.multiply %x, %x : {S}\n  return %y : {S}\n}}\n"


PROGRAMS = {
    "square": SQUARE,
    "arith, math": f"""func.func @f(%x: {V}, %y: {V}) -> {V} {{
  %a = hl.add %x, %y : {V}
  %b = hl.subtract %a, %x : {V}
  %c = hl.divide %b, %x : {V}
  %d = hl.maximum %c, %y : {V}
  %e = hl.atan2 %d, %x : {V}
  %s = hl.sin %e : {V}
  %t = hl.sqrt %x : {V}
  %u = hl.tanh %t : {V}
  %r = hl.multiply %s, %u : {V}
  return %r : {V}
}}
""",
    "logexp2": f"""func.func @f(%x: {V}) -> {V} {{
  %a = hl.exp2 %x : {V}
  %b = hl.log2 %a : {V}
  %c = hl.log1p %b : {V}
  %d = hl.multiply %a, %c : {V}
  return %d : {V}
}}
""",
    "pow": f"""func.func @f(%x: {V}, %e: {V}) -> {V} {{
  %y = hl.power %x, %e : {V}
  return %y : {V}
}}
""",
    "batched_square": """func.func @f(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = hl.multiply %x, %x : tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
""",
    "func, custom_rule_multi_call": f"""func.func @f(%x: {V}, %y: {V}) -> {V} {{
  %a = func.call @g(%x, %y) : ({V}, {V}) -> {V}
  %b = func.call @g(%a, %x) : ({V}, {V}) -> {V}
  return %b : {V}
}}
func.func private @g(%x: {V}, %y: {V}) -> {V} {{
  %a = hl.sin %x : {V}
  %b = hl.multiply %a, %y : {V}
  return %b : {V}
}}
""",
    "multiret, multiret2, multiresult_tablegen, bbarg-order": f"""func.func @f(%x: {V}, %y: {V}) -> ({V}, {S}, {V}) {{
  %a = hl.multiply %x, %y : {V}
  %b = hl.sum %a : ({V}) -> {S}
  return %a, %b, %y : {V}, {S}, {V}
}}
""",
    "inactive_arg, null_revfn": f"""func.func @f(%x: {V}, %n: {N}, %u: {V}) -> {V} {{
  %c = hl.cast %n : ({N}) -> {S}
  %a = hl.multiply %x, %c : ({V}, {S}) -> {V}
  %b = hl.exp %a : {V}
  return %b : {V}
}}
""",
    "drop_gradients": f"""func.func @f(%x: {V}, %y: {V}) -> {V} {{
  %a = hl.floor %y : {V}
  %b = hl.multiply %x, %a : {V}
  return %b : {V}
}}
""",
    "scf_if, affine_if": f"""func.func @f(%x: {V}, %y: {V}) -> {V} {{
  %s = hl.sum %x : ({V}) -> {S}
  %z = hl.constant dense<0.0> : {S}
  %p = hl.greater %s, %z : ({S}, {S}) -> tensor<i1>
  %r:2 = hl.if %p, %x, %y ({{
  ^bb0(%a: {V}, %b: {V}):
    %c = hl.multiply %a, %b : {V}
    hl.yield %c, %a : ({V}, {V}) -> ()
  }}, {{
  ^bb0(%a: {V}, %b: {V}):
    %c = hl.exp %b : {V}
    hl.yield %c, %b : ({V}, {V}) -> ()
  }}) : (tensor<i1>, {V}, {V}) -> ({V}, {V})
  %q = hl.multiply %r#0, %r#1 : {V}
  return %q : {V}
}}
""",
    "if in if": f"""func.func @f(%x: {V}, %p: tensor<i1>, %q: tensor<i1>) -> {V} {{
  %r = hl.if %p, %q, %x ({{
  ^bb0(%k: tensor<i1>, %a: {V}):
    %s = hl.if %k, %a ({{
    ^bb0(%b: {V}):
      %c = hl.sin %b : {V}
      hl.yield %c : ({V}) -> ()
    }}, {{
    ^bb0(%b: {V}):
      %c = hl.exp %b : {V}
      hl.yield %c : ({V}) -> ()
    }}) : (tensor<i1>, {V}) -> {V}
    %d = hl.multiply %s, %a : {V}
    hl.yield %d : ({V}) -> ()
  }}, {{
  ^bb0(%k: tensor<i1>, %a: {V}):
    hl.yield %a : ({V}) -> ()
  }}) : (tensor<i1>, tensor<i1>, {V}) -> {V}
  return %r : {V}
}}
""",
    "scf_for, affine_for": f"""func.func @f(%x: {V}, %w: {V}) -> ({V}, {V}) {{
  %lo = hl.constant dense<0> : {N}
  %hi = hl.constant dense<4> : {N}
  %r:2 = hl.for %lo, %hi, %x, %w, %w {{num_carry = 2}} ({{
  ^bb0(%i: {N}, %a: {V}, %b: {V}, %c: {V}):
    %d = hl.multiply %a, %c : {V}
    %e = hl.sin %d : {V}
    %g = hl.add %e, %b : {V}
    hl.yield %e, %g : ({V}, {V}) -> ()
  }}) : ({N}, {N}, {V}, {V}, {V}) -> ({V}, {V})
  return %r#0, %r#1 : {V}, {V}
}}
""",
    "scf_for with run-time bounds": f"""func.func @f(%x: {V}, %n: {N}) -> {V} {{
  %lo = hl.constant dense<2> : {N}
  %r = hl.for %lo, %n, %x {{num_carry = 1}} ({{
  ^bb0(%i: {N}, %a: {V}):
    %k = hl.cast %i : ({N}) -> {S}
    %d = hl.multiply %a, %k : ({V}, {S}) -> {V}
    %e = hl.sin %d : {V}
    hl.yield %e : ({V}) -> ()
  }}) : ({N}, {N}, {V}) -> {V}
  return %r : {V}
}}
""",
    "for_loop_partial_inactive": f"""func.func @f(%x: {V}, %w: {V}) -> {V} {{
  %lo = hl.constant dense<0> : {N}
  %hi = hl.constant dense<3> : {N}
  %one = hl.constant dense<1.0> : {V}
  %r:3 = hl.for %lo, %hi, %x, %one, %lo {{num_carry = 3}} ({{
  ^bb0(%i: {N}, %a: {V}, %b: {V}, %n: {N}):
    %c = hl.multiply %a, %b : {V}
    %d = hl.exp %b : {V}
    %g = hl.sin %c : {V}
    %m = hl.add %n, %i : {N}
    hl.yield %g, %d, %m : ({V}, {V}, {N}) -> ()
  }}) : ({N}, {N}, {V}, {V}, {N}) -> ({V}, {V}, {N})
  return %r#0 : {V}
}}
""",
    "scf_for_memref_inner_dynamic, flatten_caches": f"""func.func @f(%x: {V}) -> {V} {{
  %lo = hl.constant dense<0> : {N}
  %hi = hl.constant dense<4> : {N}
  %r = hl.for %lo, %hi, %x, %lo {{num_carry = 1}} ({{
  ^bb0(%i: {N}, %a: {V}, %z: {N}):
    %s = hl.for %z, %i, %a {{num_carry = 1}} ({{
    ^bb0(%j: {N}, %b: {V}):
      %c = hl.sin %b : {V}
      hl.yield %c : ({V}) -> ()
    }}) : ({N}, {N}, {V}) -> {V}
    %d = hl.multiply %s, %a : {V}
    hl.yield %d : ({V}) -> ()
  }}) : ({N}, {N}, {V}, {N}) -> {V}
  return %r : {V}
}}
""",
    "scf_while": f"""func.func @f(%x: {V}, %t: {S}) -> {V} {{
  %one = hl.constant dense<1.0> : {S}
  %r:2 = hl.while %one, %x, %t {{num_carry = 2, max_trip_count = 20}} ({{
  ^bb0(%a: {S}, %b: {V}, %c: {S}):
    %p = hl.less %a, %c : ({S}, {S}) -> tensor<i1>
    hl.yield %p : (tensor<i1>) -> ()
  }}, {{
  ^bb0(%a: {S}, %b: {V}, %c: {S}):
    %d = hl.add %a, %a : {S}
    %e = hl.sin %b : {V}
    %g = hl.multiply %e, %d : ({V}, {S}) -> {V}
    hl.yield %d, %g : ({S}, {V}) -> ()
  }}) : ({S}, {V}, {S}) -> ({S}, {V})
  return %r#1 : {V}
}}
""",
    "while in scan in if": f"""func.func @f(%x: {V}, %p: tensor<i1>) -> {V} {{
  %r = hl.if %p, %x ({{
  ^bb0(%a: {V}):
    %s = hl.scan %a, %a {{length = 3, num_carry = 1}} ({{
    ^bb0(%b: {V}, %w: {V}):
      %zero = hl.constant dense<0> : {N}
      %u:2 = hl.while %zero, %b {{num_carry = 2, max_trip_count = 2}} ({{
      ^bb0(%k: {N}, %c: {V}):
        %two = hl.constant dense<2> : {N}
        %q = hl.less %k, %two : ({N}, {N}) -> tensor<i1>
        hl.yield %q : (tensor<i1>) -> ()
      }}, {{
      ^bb0(%k: {N}, %c: {V}):
        %one = hl.constant dense<1> : {N}
        %n = hl.add %k, %one : {N}
        %d = hl.sin %c : {V}
        hl.yield %n, %d : ({N}, {V}) -> ()
      }}) : ({N}, {V}) -> ({N}, {V})
      %e = hl.multiply %u#1, %w : {V}
      hl.yield %e : ({V}) -> ()
    }}) : ({V}, {V}) -> {V}
    hl.yield %s : ({V}) -> ()
  }}, {{
  ^bb0(%a: {V}):
    hl.yield %a : ({V}) -> ()
  }}) : (tensor<i1>, {V}) -> {V}
  return %r : {V}
}}
""",
    "scf_for_memref: a loop that writes rows": """func.func @f(%x: tensor<4x3xf64>, %z: tensor<4x3xf64>) -> tensor<4x3xf64> {
  %zero = hl.constant dense<0> : tensor<i64>
  %hi = hl.constant dense<4> : tensor<i64>
  %r = hl.for %zero, %hi, %z, %x, %zero {num_carry = 1} ({
  ^bb0(%i: tensor<i64>, %m: tensor<4x3xf64>, %a: tensor<4x3xf64>, %o: tensor<i64>):
    %row = hl.dynamic_slice %a, %i, %o {sizes = [1, 3]} : (tensor<4x3xf64>, tensor<i64>, tensor<i64>) -> tensor<1x3xf64>
    %sq = hl.multiply %row, %row : tensor<1x3xf64>
    %n = hl.dynamic_update_slice %m, %sq, %i, %o : (tensor<4x3xf64>, tensor<1x3xf64>, tensor<i64>, tensor<i64>) -> tensor<4x3xf64>
    hl.yield %n : (tensor<4x3xf64>) -> ()
  }) : (tensor<i64>, tensor<i64>, tensor<4x3xf64>, tensor<4x3xf64>, tensor<i64>) -> tensor<4x3xf64>
  return %r : tensor<4x3xf64>
}
""",
    "loop_invariant_cache": f"""func.func @f(%x: {V}, %w: {V}) -> {V} {{
  %e = hl.exp %w : {V}
  %r = hl.scan %x, %e {{length = 4, num_carry = 1}} ({{
  ^bb0(%a: {V}, %c: {V}):
    %d = hl.multiply %a, %c : {V}
    hl.yield %d : ({V}) -> ()
  }}) : ({V}, {V}) -> {V}
  return %r : {V}
}}
""",
    "scf_parallel, affine_parallel: a map over rows": """func.func @f(%x: tensor<4x3xf64>, %w: tensor<3xf64>) -> tensor<4x3xf64> {
  %r = hl.scan %w, %x {length = 4, num_carry = 0, num_xs = 1} ({
  ^bb0(%c: tensor<3xf64>, %a: tensor<3xf64>):
    %s = hl.sin %a : tensor<3xf64>
    %d = hl.multiply %s, %c : tensor<3xf64>
    hl.yield %d : (tensor<3xf64>) -> ()
  }) : (tensor<3xf64>, tensor<4x3xf64>) -> tensor<4x3xf64>
  return %r : tensor<4x3xf64>
}
""",
    "custom_rule_control_flow": f"""func.func @f(%x: {V}, %p: tensor<i1>) -> {V} {{
  %r = hl.if %p, %x ({{
  ^bb0(%a: {V}):
    %b = func.call @g(%a) : ({V}) -> {V}
    hl.yield %b : ({V}) -> ()
  }}, {{
  ^bb0(%a: {V}):
    %b = func.call @g(%a) : ({V}) -> {V}
    %c = func.call @g(%b) : ({V}) -> {V}
    hl.yield %c : ({V}) -> ()
  }}) : (tensor<i1>, {V}) -> {V}
  return %r : {V}
}}
func.func private @g(%x: {V}) -> {V} attributes {{ad.vjp = @g_vjp}} {{
  %y = hl.sin %x : {V}
  return %y : {V}
}}
func.func private @g_vjp(%x: {V}, %d: {V}) -> {V} {{
  %c = hl.cos %x : {V}
  %r = hl.multiply %d, %c : {V}
  return %r : {V}
}}
""",
    "shard, unshard, contiguous, copy": """func.func @f(%x: tensor<4x3xf64>) -> tensor<4x3xf64> {
  %a, %b = hl.shard %x {axis = 0, devices = ["left", "right"]} : (tensor<4x3xf64>) -> (tensor<2x3xf64>, tensor<2x3xf64>)
  %c = hl.sin %a : tensor<2x3xf64>
  %d = hl.contiguous %c : tensor<2x3xf64>
  %e = hl.exp %b : tensor<2x3xf64>
  %g = hl.contiguous_backward %e : tensor<2x3xf64>
  %h = hl.copy %g {device = "left"} : tensor<2x3xf64>
  %y = hl.unshard %d, %h {axis = -2} : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<4x3xf64>
  return %y : tensor<4x3xf64>
}
""",
    "switch": f"""func.func @f(%x: {V}, %n: {N}) -> {V} {{
  %r = hl.switch %n, %x ({{
  ^bb0(%a: {V}):
    hl.yield %a : ({V}) -> ()
  }}, {{
  ^bb0(%a: {V}):
    %b = hl.sin %a : {V}
    hl.yield %b : ({V}) -> ()
  }}, {{
  ^bb0(%a: {V}):
    %b = hl.exp %a : {V}
    hl.yield %b : ({V}) -> ()
  }}) : ({N}, {V}) -> {V}
  return %r : {V}
}}
""",
}

PROGRAMS |= {
    "scf_parallel_if: a map over rows with a branch": """func.func @f(%x: tensor<4x3xf64>, %w: tensor<3xf64>) -> tensor<4x3xf64> {
  %r = hl.scan %w, %x {length = 4, num_carry = 0, num_xs = 1} ({
  ^bb0(%c: tensor<3xf64>, %a: tensor<3xf64>):
    %t = hl.sum %a : (tensor<3xf64>) -> tensor<f64>
    %b = hl.constant dense<2.7> : tensor<f64>
    %p = hl.less %t, %b : (tensor<f64>, tensor<f64>) -> tensor<i1>
    %d = hl.if %p, %a, %c ({
    ^bb1(%e: tensor<3xf64>, %g: tensor<3xf64>):
      %h = hl.multiply %e, %g : tensor<3xf64>
      hl.yield %h : (tensor<3xf64>) -> ()
    }, {
    ^bb1(%e: tensor<3xf64>, %g: tensor<3xf64>):
      %h = hl.exp %e : tensor<3xf64>
      hl.yield %h : (tensor<3xf64>) -> ()
    }) : (tensor<i1>, tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
    hl.yield %d : (tensor<3xf64>) -> ()
  }) : (tensor<3xf64>, tensor<4x3xf64>) -> tensor<4x3xf64>
  return %r : tensor<4x3xf64>
}
""",
    "a call inside a loop": f"""func.func @f(%x: {V}, %w: {V}) -> {V} {{
  %r = hl.scan %x, %w {{length = 3, num_carry = 1}} ({{
  ^bb0(%a: {V}, %c: {V}):
    %b:2 = func.call @g(%a, %c) : ({V}, {V}) -> ({V}, {S})
    %d = hl.multiply %b#0, %b#1 : ({V}, {S}) -> {V}
    hl.yield %d : ({V}) -> ()
  }}) : ({V}, {V}) -> {V}
  return %r : {V}
}}
func.func private @g(%x: {V}, %y: {V}) -> ({V}, {S}) {{
  %a = hl.sin %x : {V}
  %b = hl.multiply %a, %y : {V}
  %c = hl.mean %b : ({V}) -> {S}
  return %b, %c : {V}, {S}
}}
""",
    "a body whose inner values are made again from its carry, some used twice": f"""func.func @f(%x: {V}, %w: {V}) -> {V} {{
  %k = hl.cos %w : {V}
  %r = hl.scan %x, %k {{length = 4, num_carry = 1}} ({{
  ^bb0(%a: {V}, %c: {V}):
    %b = hl.sin %a : {V}
    %d = hl.multiply %b, %c : {V}
    %e = hl.exp %d : {V}
    %g = hl.multiply %e, %b : {V}
    %h = hl.tanh %g : {V}
    hl.yield %h : ({V}) -> ()
  }}) : ({V}, {V}) -> {V}
  return %r : {V}
}}
""",
    "a loop with checkpoints": f"""func.func @f(%x: {V}, %w: {V}) -> {V} {{
  %r = hl.scan %x, %w {{length = 9, num_carry = 1, checkpoints = 3}} ({{
  ^bb0(%a: {V}, %c: {V}):
    %b = hl.sin %a : {V}
    %d = hl.multiply %b, %c : {V}
    hl.yield %d : ({V}) -> ()
  }}) : ({V}, {V}) -> {V}
  return %r : {V}
}}
""",
}
