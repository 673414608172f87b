"""The shapes of programs that Enzyme's MLIR reverse-mode tests have (each entry names its counterpart there), checked by
central differences in both modes, in split mode, and against each other. Tests of mutable memory, pointers, atomics and complex
numbers have none: there is no such thing here."""

import numpy as np
import pytest

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


def arguments_of(module):
    """One array an argument: floats between 0.3 and 1.5, integers 4, truths true."""
    rng = np.random.default_rng(3)
    arrays = []
    for argument in module.regions[0].block.first.arguments:
        element = argument.type.element.text
        if element == "f64":
            arrays.append(rng.uniform(0.3, 1.5, argument.type.shape))
        else:
            arrays.append(np.full(argument.type.shape, 4, np.int64) if element == "i64" else np.full(argument.type.shape, True))
    return arrays


@pytest.mark.parametrize("name", PROGRAMS)
def test_both_modes_against_differences(kit, name):
    text = PROGRAMS[name]
    reverse, forward = (kit.autodiff(text, func="f", mode=mode) for mode in ("vjp", "jvp"))
    split = kit.autodiff(text, func="f", split=True)
    arrays = arguments_of(reverse)
    results = kit.run(reverse, "f", arrays)
    floats = [value for value in results if value.dtype.kind == "f"]
    rng = np.random.default_rng(4)
    cotangents = [rng.standard_normal(value.shape) for value in floats]
    gradients = kit.run(reverse, "f_vjp", [*arrays, *cotangents])[len(results):]
    moving = [index for index, array in enumerate(arrays) if array.dtype.kind == "f"]
    for index, gradient in zip(moving, gradients, strict=True):
        expected = kit.differences(reverse, "f", arrays, index, cotangents)
        np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-6, err_msg=f"argument {index}")
    directions = [rng.standard_normal(arrays[index].shape) for index in moving]
    tangents = kit.run(forward, "f_jvp", [*arrays, *directions])[len(results):]
    assert sum((c * t).sum() for c, t in zip(cotangents, tangents, strict=True)) == pytest.approx(
        sum((g * d).sum() for g, d in zip(gradients, directions)), rel=1e-9, abs=1e-9)
    kept = kit.run(split, "f_fwd", arrays)
    again = kit.run(split, "f_bwd", [*kept[len(results):], *cotangents])
    for value, other in zip(gradients, again, strict=True):
        np.testing.assert_array_equal(value, other)


@pytest.mark.parametrize("name", PROGRAMS)
def test_decomposed_before_or_after_gives_the_same(kit, name):
    """autodiff then decompose, and decompose then autodiff: the same gradients to rounding, and only prim is left."""
    import gradopt

    after, before = gradopt.parse(PROGRAMS[name]), gradopt.parse(PROGRAMS[name])
    gradopt.run_passes(after, "autodiff{func=f mode=vjp},decompose")
    gradopt.run_passes(before, "decompose,autodiff{func=f mode=vjp}")
    for module in (after, before):
        assert not [op.name for op in module.walk() if op.name.split(".")[0] in ("hl", "bwd", "ad")]
    arrays = arguments_of(after)
    floats = [value for value in kit.run(after, "f", arrays) if value.dtype.kind == "f"]
    cotangents = [np.random.default_rng(5).standard_normal(value.shape) for value in floats]
    pairs = zip(*(kit.run(module, "f_vjp", [*arrays, *cotangents]) for module in (after, before)), strict=True)
    for a, b in pairs:
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_bodyless(kit):
    from gradopt.ir.diagnostics import GradoptError

    text = SQUARE.replace("hl.multiply %x, %x : tensor<f64>", "func.call @g(%x) : (tensor<f64>) -> tensor<f64>") + \
        "func.func private @g(tensor<f64>) -> tensor<f64>\n"
    with pytest.raises(GradoptError, match="function '@g' has no body, so it has no derivative"):
        kit.autodiff(text, func="f")


def test_result_attrs(kit):
    """Attributes of arguments belong to the old signature, so the derivative has none."""
    text = SQUARE.replace("%x: tensor<f64>)", "%x: tensor<f64> {test.name = 1 : i64})")
    module = kit.autodiff(text, func="f")
    np.testing.assert_allclose(kit.run(module, "f_grad", [np.asarray(3.0)])[0], 6.0)
