"""Programs of every shape, checked by central differences in both modes, in split mode, and against each other; and the list of
Enzyme's MLIR reverse-mode tests with the counterpart of each here."""

import numpy as np
import pytest
from enzyme_cases import COUNTERPARTS, NOT_HERE
from program_shapes import PROGRAMS, SQUARE


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


@pytest.mark.parametrize("case", COUNTERPARTS)
def test_every_case_of_enzyme_has_a_counterpart(case):
    """A program of the list above, or a test somewhere in this suite."""
    import re
    from pathlib import Path

    root = Path(__file__).parents[2]
    found = COUNTERPARTS[case]
    assert case not in NOT_HERE
    if found not in PROGRAMS:
        file, name = found.split("::")
        assert re.search(rf"^def {name}\(", (root / file).read_text(), re.MULTILINE), found


@pytest.mark.parametrize("name", ["func, custom_rule_multi_call", "a call inside a loop", "multiret, multiret2, multiresult_tablegen, bbarg-order"])
def test_closed_under_calls(kit, name):
    """vjp and jvp, both of both, and the batch of each, across calls with several results."""
    import gradopt

    text = PROGRAMS[name]
    for first in ("vjp", "jvp"):
        for second in ("vjp", "jvp"):
            module = gradopt.parse(text)
            gradopt.run_passes(module, f"autodiff{{func=f mode={first}}}")
            gradopt.run_passes(module, f"autodiff{{func=f_{first} mode={second}}}")
            derived, twice = f"f_{first}", f"f_{first}_{second}"
            rng = np.random.default_rng(6)
            arrays = inputs_of(module, derived, rng)
            count = len(kit.run(module, derived, arrays))
            others = [rng.standard_normal(array.shape) for array in inputs_of(module, twice, rng)[len(arrays):]]
            found = kit.run(module, twice, [*arrays, *others])[count:]
            slopes = [kit.differences(module, derived, arrays, index, others) for index in range(len(arrays))] if second == "vjp" else None
            if slopes is not None:
                for gradient, expected in zip(found, slopes, strict=True):
                    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-5)
            else:
                step = 1e-5
                ends = [kit.run(module, derived, [a + sign * step * d for a, d in zip(arrays, others)]) for sign in (1, -1)]
                for tangent, more, less in zip(found, *ends, strict=True):
                    np.testing.assert_allclose(tangent, (more - less) / (2 * step), rtol=1e-5, atol=1e-5)
            gradopt.run_passes(module, f"decompose,batch{{func={twice} size=2}}")
            both = [np.stack([array, 0.9 * array]) for array in (*arrays, *others)]
            batch = kit.run(module, f"{twice}_batch", both)
            for number in range(2):
                for stacked, value in zip(batch, kit.run(module, twice, [array[number] for array in both]), strict=True):
                    np.testing.assert_allclose(stacked[number], value, rtol=1e-12, atol=1e-12)


def inputs_of(module, name, rng):
    """Floats between 0.3 and 1.5 for each argument of a function."""
    function = next(op for op in module.regions[0].block.operations if op.properties["sym_name"].value == name)
    return [rng.uniform(0.3, 1.5, argument.type.shape) for argument in function.regions[0].block.arguments]
