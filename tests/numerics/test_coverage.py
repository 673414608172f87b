"""The matrix of what the generated tests cover: operation by stage, rank, element type, and known or unknown sizes. It has no hole.

The tests of each stage are parametrised over the lists that are read here (`tensor/samples.py`, `neural/neural_samples.py`), so a new
operation fails until it has samples, and a sample takes part in every stage. `pytest -s` prints the matrix.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from gradopt.dialects.bwd import neural as bwd_neural
from gradopt.dialects.hl import neural as hl_neural
from gradopt.ir.dialect import declared_operations, find_dialect

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "tensor"), str(HERE / "neural")]
import test_neural_compiled as neural_compiled  # noqa: E402
import test_tensor_compiled as compiled  # noqa: E402
from neural_samples import SAMPLES as NEURAL  # noqa: E402
from neural_samples import Sample as NeuralSample  # noqa: E402
from neural_support import parsed, read_reference  # noqa: E402
from samples import DIFFERENTIABLE, NO_DERIVATIVE, SAMPLES, few, one_a_rank, rank  # noqa: E402
from tensor_support import STATIC, module_of  # noqa: E402
from test_tensor_ops import OPERATIONS as TENSOR_OPERATIONS  # noqa: E402
from test_tensor_references import INDEX  # noqa: E402

NEURAL_OPERATIONS = [cls.name for module in (*hl_neural.MODULES, *bwd_neural.MODULES) for cls in declared_operations(vars(module))]
LIT = {path: path.read_text() for path in sorted((HERE.parent / "lit").rglob("*.ir"))}
THROUGH = "\n".join(text for text in LIT.values() if re.search(r"RUN:.*autodiff.*decompose", text))

# the ranks that an operation takes, where they are not 0 to 5: of the first operand, or of the result where that gives the shape
FROM_1 = "iota dim argmax argmin cummax cummin logcumsumexp softmax log_softmax sort argsort topk concat split take_along_axis put_along_axis"
FROM_1 += " indexing_one_hot set_one_hot take_multi set_multi add_multi gather_nd scatter_nd matmul layer_norm rms_norm"
BACKWARD_FROM_1 = "softmax log_softmax put_along_axis indexing_one_hot take_multi layer_norm_input layer_norm_gamma rms_norm_input"
BACKWARD_FROM_1 += " rms_norm_gamma rms_norm_beta"
FROM_2 = "eye tril triu cholesky triangular_solve solve inverse det group_norm batch_norm"
BACKWARD_FROM_2 = "group_norm_input group_norm_gamma group_norm_beta batch_norm_input batch_norm_gamma batch_norm_statistics"
RANKS: dict[str, set[int]] = {
    **{f"hl.{name}": set(range(1, 6)) for name in FROM_1.split()},
    **{f"bwd.{name}": set(range(1, 6)) for name in BACKWARD_FROM_1.split()},
    **{f"hl.{name}": set(range(2, 6)) for name in FROM_2.split()},
    **{f"bwd.{name}": set(range(2, 6)) for name in BACKWARD_FROM_2.split()},
    **{f"{dialect}.rope": {2, 3, 4, 5} for dialect in ("hl", "bwd")},
    **{f"{dialect}.{name}": {4} for dialect in ("hl", "bwd") for name in ("max_pool2d", "avg_pool2d", "pixel_shuffle")},
    **{f"bwd.conv{count}d_{of}": {count + 2} for count in (1, 2, 3) for of in ("input", "weight")},
    **{f"hl.conv{count}d": {count + 2} for count in (1, 2, 3)},
    **{f"{dialect}.softmax_cross_entropy": {2} for dialect in ("hl", "bwd")},
    **{f"{dialect}.attention": {3, 4} for dialect in ("hl", "bwd")},
    **{f"hl.warp_{kind}": {4} for kind in ("affine", "perspective")},
    **{f"bwd.warp_{kind}_data": {3} for kind in ("affine", "perspective")},
    **{f"bwd.warp_{kind}_mat": {4} for kind in ("affine", "perspective")},
    "bwd.rope_tables": {2, 3, 4, 5},
    "bwd.nll_loss": {0, 1, 2},  # of the loss's cotangent
    "bwd.nll_loss_weights": {0, 2},
    "hl.nll_loss": {1, 2, 3, 4, 5},
    "hl.cross_entropy_with_logits": {1, 2, 3, 4, 5},
    "hl.conv2d_transpose": {4},
    "hl.embedding": {2},
    "hl.constant": {0, 1, 2},
}
ALL = set(range(6))

# primitive operations that no operation of these groups becomes, and where their tests are
ELSEWHERE = {
    "tests/numerics/autodiff/test_control_flow.py": {"scan", "while", "if", "switch"},
    "tests/numerics/autodiff/test_prim_closed.py": {"contiguous", "copy", "barrier", "fold", "unfold", "round", "call", "check"},
    "tests/unit": {"yield"},
}


def neural_rank(text: str) -> int:
    """The rank of the first operand of a sample's text."""
    head = text.rpartition(" -> ")[0].rpartition(" : ")[2]
    found = re.search(r"tensor<([^>]*)>", head)
    assert found is not None, text
    return found.group(1).count("x")


def ranks_of_samples() -> dict[str, set[int]]:
    found: dict[str, set[int]] = defaultdict(set)
    for sample in SAMPLES:
        found[sample.name].add(rank(sample))
    for other in NEURAL:
        found[other.name].add(neural_rank(other.text))
    return found


@pytest.mark.parametrize("name", [*TENSOR_OPERATIONS, *NEURAL_OPERATIONS])
def test_every_rank(name: str) -> None:
    """Known sizes and, where a sample has a size N, unknown ones; in f64 and f32."""
    missing = RANKS.get(name, ALL) - ranks_of_samples()[name]
    assert not missing, f"{name} has no sample of ranks {sorted(missing)}"


def test_ranks_are_of_declared_operations() -> None:
    assert set(RANKS) <= {*TENSOR_OPERATIONS, *NEURAL_OPERATIONS}


# what cannot have a size that only run time knows: constants and the like
STATIC_ONLY = {"hl.constant"}


@pytest.mark.parametrize("name", TENSOR_OPERATIONS)
def test_every_stage_of_a_tensor_op(name: str) -> None:
    own = [sample for sample in SAMPLES if sample.name == name]
    stages = {
        "unknown sizes": name in STATIC_ONLY or any(sample.is_dynamic for sample in own),
        "reference": name in ("hl.random_uniform", "hl.random_normal") or any(sample.reference for sample in own),
        "compiled, f64": any(sample.name == name for sample in compiled.values_of("f64")),
        "compiled, f32": not any(s.has_float for s in own) or any(sample.name == name for sample in compiled.values_of("f32")),
        "compiled, unknown sizes": not any(s in compiled.UNKNOWN for s in own)
        or any(sample.name == name for element in ("f64", "f32") for sample in compiled.dynamic_of(element)),
        "preserved": name.startswith("hl.random") or any(sample.name == name for sample in compiled.WHOLE),
        "empty": any("0" in re.split(r"[x:]", text) for s in own for text in (*s.operands, *(s.results or ()))),
    }
    floats = any(":" not in text for sample in own for text in sample.operands)
    if floats and name.removeprefix("hl.") not in NO_DERIVATIVE:
        stages["derivatives"] = any(sample.name == name for sample in DIFFERENTIABLE)
        stages["second derivatives"] = any(sample.name == name for sample in few([s for s in DIFFERENTIABLE if s.smooth], 3))
        stages["compiled derivatives"] = any(s.name == name for s in compiled.GRADIENTS["f64", STATIC])
        stages["compiled derivatives in a 16-bit type"] = any(s.name == name for samples, _ in compiled.SHORT.values() for s in samples)
    missing = [stage for stage, there in stages.items() if not there]
    assert not missing, f"{name}: {missing}"


@pytest.mark.parametrize("name", NEURAL_OPERATIONS)
def test_every_stage_of_a_neural_op(name: str) -> None:
    """Compiled whole and in parts in f64, in f32 and in a 16-bit type, with known and unknown sizes, and second derivatives; a bwd op's
    are those of its hl op and of the op itself."""
    def among(samples: list[NeuralSample]) -> bool:
        return any(sample.name == name for sample in samples)

    stages = {
        "unknown sizes": any("{N}" in sample.text for sample in NEURAL if sample.name == name),
        "preserved": among(neural_compiled.FIRST),
        "compiled in a 16-bit type": any(among(samples) for samples in neural_compiled.IN_16_BITS.values()),
    }
    if name.startswith("hl."):
        stages["compiled in f32"] = among(neural_compiled.IN_F32)
        stages["compiled second derivatives"] = among(neural_compiled.TWICE) or name in STRAIGHT_THROUGH
    else:
        stages["differences"] = any(sample.smooth for sample in NEURAL if sample.name == name) or name in STRAIGHT_THROUGH
    missing = [stage for stage, there in stages.items() if not there]
    assert not missing, f"{name}: {missing}"


STRAIGHT_THROUGH = {"hl.fake_quantize", "bwd.fake_quantize"}  # no derivative of anything: nothing to compare with differences

# what one of the systems that gradopt began with has, without a derivative
NO_RULE = "squeeze strided_slice max min prod std tril erf gelu layer_norm batch_norm clip pad tile take_along_axis put_along_axis gather_nd"
NO_RULE += " scatter_nd leaky_relu trunc stack mod"


def test_operations_without_a_derivative_elsewhere_have_one_here() -> None:
    differentiated = {sample.name for sample in DIFFERENTIABLE} | {sample.name for sample in NEURAL if sample.smooth}
    assert not {f"hl.{name}" for name in NO_RULE.split()} - differentiated


def test_every_rank_is_compiled() -> None:
    """Each op at each rank in f64 or f32."""
    done = {(sample.name, rank(sample)) for element in ("f64", "f32") for sample in compiled.values_of(element)}
    missing = {(sample.name, rank(sample)) for sample in one_a_rank(SAMPLES)} - done
    assert not missing, sorted(missing)


@pytest.mark.parametrize("name", [*TENSOR_OPERATIONS, *NEURAL_OPERATIONS])
def test_every_op_has_a_lit_test(name: str) -> None:
    """One that runs `autodiff` and `decompose`."""
    assert re.search(rf"(?<![\w.]){re.escape(name)}\b", THROUGH), f"no lit test shows {name} through autodiff,decompose"


# without floats, or moving elements only, where NumPy is reference enough; random numbers are nobody else's
NO_PEER = "constant zeros ones full iota eye random_uniform random_normal cast bitcast shape_cast dim all any reshape broadcast_to"
NO_PEER += " collapse_sum_to dynamic_slice dynamic_update_slice logical_not logical_and logical_or logical_xor bitwise_not bitwise_and"
NO_PEER += " bitwise_or bitwise_xor shift_left shift_right"
NEURAL_NO_PEER = {"hl.fake_quantize", "hl.dropout"}  # tests/numerics/neural/test_neural_references.py


def test_every_op_has_values_of_pytorch_or_jax() -> None:
    """Stored ones; the bwd ops are the gradients of their hl ops there."""
    names = {sample.label: sample.name for sample in SAMPLES}
    stored = {names[label] for label in INDEX}
    without = {name for name in TENSOR_OPERATIONS if name.startswith("hl.") and name not in stored}
    assert without == {f"hl.{name}" for name in NO_PEER.split()}
    texts = "".join(case["text"] for case in read_reference().values())
    assert {name for name in NEURAL_OPERATIONS if name.startswith("hl.") and f"{name} " not in texts} == NEURAL_NO_PEER


def test_every_primitive_op_is_reached() -> None:
    """What the samples decompose to are all primitive operations, but those that have tests of their own."""
    reached: set[str] = set()
    for sample in few(SAMPLES, 2):
        reached |= {op.name for op in module_of(sample, STATIC, "f64", "decompose").walk()}
    for other in NEURAL:
        reached |= {op.name for op in parsed(other, passes="decompose").walk()}
    dialect = find_dialect("prim")
    assert dialect is not None
    declared = {cls.name for cls in dialect.operations.values()}
    elsewhere = {f"prim.{name}" for names in ELSEWHERE.values() for name in names}
    assert not declared - reached - elsewhere, sorted(declared - reached - elsewhere)
    for path, names in ELSEWHERE.items():
        files = [HERE.parents[1] / path] if path.endswith(".py") else sorted((HERE.parents[1] / path).rglob("*.py"))
        text = "".join(file.read_text() for file in files)
        assert not [name for name in names if not re.search(rf"\b{name}\b", text)], path


def test_print_the_matrix() -> None:
    """Shown with `-s`: operations, their samples, and the ranks of these."""
    ranks = ranks_of_samples()
    for name in (*TENSOR_OPERATIONS, *NEURAL_OPERATIONS):
        count = sum(sample.name == name for sample in (*SAMPLES, *NEURAL))
        print(f"{name:32} {count:3} samples, ranks {''.join(map(str, sorted(ranks[name])))}")
    assert len(ranks) == len({*TENSOR_OPERATIONS, *NEURAL_OPERATIONS})
