"""What a user can do wrong: one located error each."""

import pytest
from gradopt.ir.diagnostics import GradoptError

LOSS = """func.func @f(%x: tensor<3xf64>, %n: tensor<i64>) -> tensor<f64> {
  %t = prim.reduce %x {kind = "sum", axes = [0]} : (tensor<3xf64>) -> tensor<f64>
  return %t : tensor<f64>
}
"""


def message(kit, text, **options):
    with pytest.raises(GradoptError) as caught:
        kit.autodiff(text, **options)
    return str(caught.value)


@pytest.mark.parametrize("options, expected", [
    ({"func": "g"}, "there is no function '@g'"),
    ({"func": "f", "wrt": (1,)}, "wrt is 1, but that argument of '@f' is tensor<i64>, expected a float tensor"),
    ({"func": "f", "wrt": (2,)}, "wrt is 2, but '@f' has 2 arguments"),
    ({"func": "f", "wrt": ("y",)}, "wrt names 'y', but the arguments of '@f' are '%x', '%n'"),
    ({"func": "f", "wrt": (0, "x")}, "wrt names argument 0 of '@f' twice"),
])
def test_options(kit, options, expected):
    assert expected in message(kit, LOSS, **options)


def test_a_function_without_float_results(kit):
    text = """func.func @f(%x: tensor<3xf64>, %n: tensor<i64>) -> tensor<i64> {
  return %n : tensor<i64>
}
"""
    assert "function '@f' returns tensor<i64>, expected a float tensor to differentiate" in message(kit, text, func="f")


def test_recursion(kit):
    text = """func.func @f(%x: tensor<f64>) -> tensor<f64> {
  %y = func.call @g(%x) : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
func.func @g(%x: tensor<f64>) -> tensor<f64> {
  %y = func.call @f(%x) : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
"""
    for mode in ("grad", "jvp"):
        found = message(kit, text, func="f", mode=mode)
        assert "recursion has no derivative" in found
        assert "test.ir:" in found


def test_a_function_that_asks_for_its_own_derivative(kit):
    text = """func.func @f(%x: tensor<f64>) -> tensor<f64> {
  %y = ad.grad @f(%x) : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
"""
    assert "test.ir:2:" in message(kit, text)
    assert "'@f' asks for its own derivative" in message(kit, text)


@pytest.mark.parametrize("request_text, expected", [
    ("%y = ad.grad @missing(%x) : (tensor<3xf64>) -> tensor<3xf64>", "there is no function '@missing'"),
    ("%y = ad.grad @f(%x) : (tensor<3xf64>) -> tensor<3xf64>", "has 1 operands, expected 2: (tensor<3xf64>, tensor<i64>)"),
    ("%y = ad.grad @f(%x, %n) {wrt = [1]} : (tensor<3xf64>, tensor<i64>) -> tensor<3xf64>", "expected a float tensor"),
    ("%y = ad.grad @f(%n, %n) : (tensor<i64>, tensor<i64>) -> tensor<3xf64>", "operand 0 is tensor<i64>, expected tensor<3xf64>"),
    ("%a, %y = ad.grad @f(%x, %n) : (tensor<3xf64>, tensor<i64>) -> (tensor<3xf64>, tensor<3xf64>)", "has 2 results, expected 1"),
])
def test_requests(kit, request_text, expected):
    text = LOSS + f"""func.func @g(%x: tensor<3xf64>, %n: tensor<i64>) -> tensor<3xf64> {{
  {request_text}
  return %y : tensor<3xf64>
}}
"""
    found = message(kit, text)
    assert expected in found
    assert "test.ir:6:" in found


def test_custom_derivative_with_the_wrong_signature(kit):
    text = """func.func @f(%x: tensor<3xf64>) -> tensor<f64> attributes {ad.vjp = @rule} {
  %t = prim.reduce %x {kind = "sum", axes = [0]} : (tensor<3xf64>) -> tensor<f64>
  return %t : tensor<f64>
}
func.func @rule(%x: tensor<3xf64>) -> tensor<3xf64> {
  return %x : tensor<3xf64>
}
"""
    found = message(kit, text, func="f")
    assert "'@rule' is the ad.vjp of '@f' and has type (tensor<3xf64>) -> tensor<3xf64>" in found
    assert "expected (tensor<3xf64>, tensor<f64>) -> tensor<3xf64>" in found
    assert "test.ir:5:" in found
    missing = message(kit, text.replace("ad.vjp = @rule", "ad.vjp = @nothing"), func="f")
    assert "names '@nothing', which is not a function" in missing


def test_while_without_a_bound(kit):
    text = """func.func @f(%x: tensor<f64>, %n: tensor<i64>) -> tensor<f64> {
  %i = prim.constant dense<0> : tensor<i64>
  %r:2 = prim.while %i, %x, %n {num_carry = 2} ({
  ^bb0(%k: tensor<i64>, %c: tensor<f64>, %m: tensor<i64>):
    %t = prim.cmp %k, %m {predicate = "lt"} : (tensor<i64>, tensor<i64>) -> tensor<i1>
    prim.yield %t : (tensor<i1>) -> ()
  }, {
  ^bb0(%k: tensor<i64>, %c: tensor<f64>, %m: tensor<i64>):
    %two = prim.constant dense<2> : tensor<i64>
    %k2 = prim.add %k, %two : tensor<i64>
    %c2 = prim.sin %c : tensor<f64>
    prim.yield %k2, %c2 : (tensor<i64>, tensor<f64>) -> ()
  }) : (tensor<i64>, tensor<f64>, tensor<i64>) -> (tensor<i64>, tensor<f64>)
  return %r#1 : tensor<f64>
}
"""
    found = message(kit, text, func="f")
    assert "'prim.while' op without 'max_trip_count' has no reverse derivative" in found
    assert "test.ir:3:" in found
    kit.autodiff(text, func="f", mode="jvp")


def test_all_operations_without_a_derivative_are_reported_at_once(kit):
    text = """func.func @f(%x: tensor<f64>, %y: tensor<f64>) -> tensor<f64> {
  %a = bwd.unknown_to_all %x : tensor<f64>
  %b = "test.other"(%a) : (tensor<f64>) -> tensor<f64>
  %c = "test.inactive"(%y) : (tensor<f64>) -> tensor<f64>
  %d = prim.mul %b, %c : tensor<f64>
  return %d : tensor<f64>
}
""".replace("bwd.unknown_to_all %x : tensor<f64>", '"test.first"(%x) : (tensor<f64>) -> tensor<f64>')
    from gradopt.lowering.autodiff.pass_ import AutodiffPass
    from gradopt.lowering.passes.base import PassContext
    from gradopt.parser import parse_module

    module = parse_module(text, "test.ir", allow_unregistered=True)
    with pytest.raises(GradoptError) as caught:
        AutodiffPass(func="f", wrt=(0,)).run(module, PassContext())
    found = str(caught.value)
    assert "test.ir:2:" in found and "'test.first' op has no derivative" in found
    assert "test.ir:3:" in found and "'test.other' op has no derivative" in found
    assert "test.inactive" not in found


def test_functions_that_ask_for_their_own_derivative_through_a_call(kit):
    """Whichever function comes first, the request is to blame."""
    asks = "func.func @f(%x: tensor<f64>) -> tensor<f64> {\n  %y = ad.grad @g(%x) : (tensor<f64>) -> tensor<f64>\n  return %y : tensor<f64>\n}\n"
    calls = "func.func @g(%x: tensor<f64>) -> tensor<f64> {\n  %y = func.call @f(%x) : (tensor<f64>) -> tensor<f64>\n  return %y : tensor<f64>\n}\n"
    for text, line in ((asks + calls, 2), (calls + asks, 6)):
        found = message(kit, text)
        assert f"test.ir:{line}:" in found
        assert "'ad.grad' op: '@g' asks for its own derivative, which would be recursion" in found
        assert "note: on the way from that back to here" in found


@pytest.mark.parametrize("passes, expected", [
    ("autodiff{func=f wrt=n}", "wrt names 'n', but that argument of '@f' is tensor<i64>, expected a float tensor"),
    ("autodiff{func=f split=true mode=jvp}", "mode=jvp of '@f' has no forward and backward part"),
    ("autodiff{func=f split=true mode=hvp}", "mode=hvp of '@f' has no forward and backward part"),
    ("autodiff{func=d}", "function '@d' has no body, so it has no derivative"),
    ("batch{func=d}", "function '@d' has no body, so it has no batch"),
    ("batch{func=f size=9223372036854775808}", "the batch's size is 9223372036854775808, expected an integer from 0 to 2^63 - 1"),
    ("batch{func=f size=-1}", "the batch's size is -1, expected an integer from 0 to 2^63 - 1"),
    ("batch{func=f size=1.5}", "the batch's size is '1.5', expected a number, a name or ?"),
    ("bind{batch=-1}", "'batch' is -1, expected an integer from 0 to 2^63 - 1"),
    ("bind{batch=9223372036854775808}", "'batch' is 9223372036854775808, expected an integer from 0 to 2^63 - 1"),
    ("remat{budget=-5}", "option 'budget' of pass 'remat' is -5, expected an integer from 0 to 2^63 - 1"),
    ("fold{limit=-1}", "option 'limit' of pass 'fold' is -1, expected an integer from 0 to 2^63 - 1"),
])
def test_pipelines(passes, expected):
    """Options that no function can meet, and numbers that are no counts."""
    import gradopt

    module = gradopt.parse(LOSS + "func.func private @d(tensor<f64>) -> tensor<f64>\n")
    with pytest.raises(GradoptError) as caught:
        gradopt.run_passes(module, passes)
    assert expected in str(caught.value)
