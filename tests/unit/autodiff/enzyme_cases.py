"""The reverse-mode tests of Enzyme's MLIR part (its folder enzyme/test/MLIR/ReverseMode, by file name) beside ours.

A counterpart is a program of `program_shapes.PROGRAMS`, which is compared with central differences in both modes, in split mode, and
decomposed before and after; or `file::test`. What needs mutable memory, pointers, LLVM or complex arithmetic has no counterpart:
values are never written to here, so the case cannot be put; `NOT_HERE` says which it is."""

CONTROL_FLOW = "numerics/autodiff/test_control_flow.py"
CHECKPOINTS = "numerics/autodiff/test_checkpoints.py"
ERRORS, MODES, HOW_MUCH = (f"unit/autodiff/test_{name}.py" for name in ("errors", "modes", "how_much"))
SHAPES = "unit/autodiff/test_program_shapes.py"
LOOP = "scf_for, affine_for"
LOOP_BOUNDS = "scf_for with run-time bounds"  # checkpoints need a length that is known: this one keeps every carry
ROWS = "scf_for_memref: a loop that writes rows"
INNER_BOUNDS = "scf_for_memref_inner_dynamic, flatten_caches"
MAP, MAP_BRANCH = "scf_parallel, affine_parallel: a map over rows", "scf_parallel_if: a map over rows with a branch"
MADE_AGAIN = "a body whose inner values are made again from its carry, some used twice"
RESULTS = "multiret, multiret2, multiresult_tablegen, bbarg-order"
CALLS, CALL_IN_LOOP = "func, custom_rule_multi_call", "a call inside a loop"
CHECKPOINTED = "a loop with checkpoints"
BITWISE = f"{CHECKPOINTS}::test_compiled_derivatives_are_bitwise_those_that_keep_everything"
SCHEDULE = f"{CHECKPOINTS}::test_schedule_reverses_every_step_with_the_fewest_forward_steps"

COUNTERPARTS = {
    "affine_for": LOOP,
    "affine_for2": LOOP,
    "affine_for_checkpointing": CHECKPOINTED,
    "affine_for_memref": ROWS,
    "affine_for_preserve_attributes": BITWISE,
    "affine_if": "scf_if, affine_if",
    "affine_parallel": MAP,
    "affine_parallel_mincut": MAP,
    "arith": "arith, math",
    "batched_square": "batched_square",
    "bbarg-order": RESULTS,
    "bodyless": f"{SHAPES}::test_bodyless",
    "canonicalize": f"{HOW_MUCH}::test_structural_zeros",
    "custom_rule_control_flow": "custom_rule_control_flow",
    "custom_rule_multi_call": CALLS,
    "custom_rule_sets": f"{MODES}::test_custom_derivatives",
    "custom_rule_tensor": f"{MODES}::test_custom_derivatives",
    "drop_gradients": "drop_gradients",
    "flatten_caches": INNER_BOUNDS,
    "for_loop_partial_inactive": "for_loop_partial_inactive",
    "func": CALLS,
    "inactive_arg": "inactive_arg, null_revfn",
    "llvm_call": CALLS,
    "llvm_call_loop": CALL_IN_LOOP,
    "llvm_insertvalue_extractvalue": RESULTS,
    "llvm_struct": f"{MODES}::test_calls_with_several_results",
    "logexp2": "logexp2",
    "loop_invariant_cache": "loop_invariant_cache",
    "math": "arith, math",
    "mul_strongzero": "unit/autodiff/test_masked_lanes.py::test_lanes_that_where_cut_off",
    "multiresult_tablegen": RESULTS,
    "multiret": RESULTS,
    "multiret2": RESULTS,
    "need_rule_set": f"{ERRORS}::test_all_operations_without_a_derivative_are_reported_at_once",
    "null_revfn": "inactive_arg, null_revfn",
    "parallel": MAP,
    "pow": "pow",
    "recursion": f"{ERRORS}::test_recursion",
    "region_canonicalize": f"{HOW_MUCH}::test_unused_results_of_a_loop_are_not_carried_back",
    "result_attrs": f"{SHAPES}::test_result_attrs",
    "scf_for": LOOP,
    "scf_for_binomial_checkpointing": SCHEDULE,
    "scf_for_binomial_checkpointing_budget_exceeds_trip": SCHEDULE,
    "scf_for_binomial_checkpointing_dynamic": LOOP_BOUNDS,
    "scf_for_checkpointing": CHECKPOINTED,
    "scf_for_checkpointing_dynamic": LOOP_BOUNDS,
    "scf_for_gpu_inner_dynamic_hoisted": INNER_BOUNDS,
    "scf_for_memref": ROWS,
    "scf_for_memref_binomial_checkpointing": BITWISE,
    "scf_for_memref_checkpointing": BITWISE,
    "scf_for_memref_inner_dynamic": INNER_BOUNDS,
    "scf_for_memref_inner_dynamic_hoisted": INNER_BOUNDS,
    "scf_for_mincut": MADE_AGAIN,
    "scf_for_mincut_chain": MADE_AGAIN,
    "scf_for_mincut_multiuse": MADE_AGAIN,
    "scf_for_mincutouter": "loop_invariant_cache",
    "scf_for_preserve_attributes": BITWISE,
    "scf_for_runtime_checkpointing_binomial": LOOP_BOUNDS,
    "scf_for_runtime_checkpointing_periodic": LOOP_BOUNDS,
    "scf_if": "scf_if, affine_if",
    "scf_parallel": MAP,
    "scf_parallel_if": MAP_BRANCH,
    "scf_while": "scf_while",
    "split_mode": f"{MODES}::test_split",
    "square": "square",
}

MEMORY = ("affine_atomic", "affine_atomic_rmw", "affine_for_binomial_checkpointing_mutable_memory", "affine_load_store_alignment", "alloc",
          "alloca", "alloca_scope", "alloca_scope2", "dupnoneed_store", "func_call_write", "load_store_cache_guards", "memcpy", "memref",
          "memref_load_store_alignment", "scf_for_checkpointing_alloca", "scf_for_checkpointing_binomial_mutable_memory",
          "scf_for_checkpointing_mutable_memory", "scf_for_mutable_memory", "scf_for_runtime_checkpointing_mutable_memory")
POINTERS = ("llvm", "llvm_call_global", "llvm_call_overwritten", "llvm_load_store_alignment", "ptr_load",
            "scf_for_binomial_checkpointing_ptr_device", "scf_for_binomial_checkpointing_ptr_mutable",
            "scf_for_checkpointing_binomial_ptr", "store_ptr_shadow", "store_ptr_shadow_affine")
NOT_HERE = {**dict.fromkeys(MEMORY, "memory that is written to"), **dict.fromkeys(POINTERS, "pointers of LLVM"),
            **dict.fromkeys(("complex", "complex_create_im", "csquare"), "complex arithmetic"),
            **dict.fromkeys(("dbg_intrinsics", "llvm_dialect"), "operations of LLVM")}
