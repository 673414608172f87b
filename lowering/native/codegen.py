"""LLVM IR to object code for this machine's processor (loading.py takes it from there)."""

from __future__ import annotations

import functools
import inspect
import math
import re
from dataclasses import dataclass
from typing import Any

import llvmlite
import llvmlite.binding as llvm
from gradopt.lowering.native import locks
from gradopt.lowering.native.symbols import NOT_CALLED, undefined_symbols

OPTIMISATION = 3
HAS_MEMORY_MANAGER = "use_lmm" in inspect.signature(llvm.create_mcjit_compiler).parameters
"""Whether llvmlite can lay an object's sections side by side, so that code may reach its constants directly."""
SMALL, LARGE = "small", "jitdefault"
"""Code models.  The small one reaches constants in one instruction, but llvmlite's memory manager cannot load small code
that calls anything outside itself; so kernels are small, and the driver, and a kernel that calls memcpy, are large."""
RELOCATION = {SMALL: "pic", LARGE: "static"}
"""Large code names its constants by absolute address: through a global offset table (pic), the second and later objects of one
engine would read them at the place of the first object's."""

KEEP_LOOPS = "gradopt.keep_loops"
"""The metadata of a module whose loops are not unrolled: LLVM would unroll short ones before its vectoriser sees them."""

MOST_INLINE = 1024
"""Bytes up to which LLVM may write out a fill or a copy (16 stores of 64 bytes at most)."""
_CONSTANT_LENGTH = re.compile(r"@llvm\.mem.*, i(?:32|64) (\d+), i1 ")


@dataclass(frozen=True)
class Target:
    """The processor that code is made for."""

    triple: str
    cpu: str
    features: str

    def identity(self) -> str:
        """Everything about the target and LLVM that changes machine code."""
        version = ".".join(str(part) for part in llvm.llvm_version_info)
        made_by = f"llvm {version}|llvmlite {llvmlite.__version__}|O{OPTIMISATION} {HAS_MEMORY_MANAGER} {RELOCATION[LARGE]}"
        return f"{self.triple}|{self.cpu}|{self.features}|{made_by}"


@functools.cache
def host() -> Target:
    """This machine."""
    initialise()
    return Target(llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())


@functools.cache
def initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def target_machine(target: Target | None = None, code_model: str = LARGE) -> Any:
    """A fresh target machine (for this machine by default)."""
    target = target or host()
    description = llvm.Target.from_triple(target.triple)
    return description.create_target_machine(
        cpu=target.cpu, features=target.features, opt=OPTIMISATION, reloc=RELOCATION[code_model], codemodel=code_model, jit=True
    )


@functools.cache
def _machine(code_model: str) -> Any:
    return target_machine(None, code_model)


def optimised(text: str, vectorise: bool = True) -> Any:
    """Parse a module, check it and optimise it: with LLVM's pipeline and its loop vectoriser, or with a few passes.

    The few are for code that is written in vectors where it is hot, and for the driver. They take a tenth of the time of the least of
    LLVM's pipelines, for code as fast: what to inline is said by the code itself, and invariants leave loops when code is emitted.
    Call with the lock held.
    """
    machine = _machine(SMALL)
    module = llvm.parse_assembly(text)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=OPTIMISATION)
    options.loop_unrolling = KEEP_LOOPS not in text
    options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    passes = builder.getModulePassManager() if vectorise else _few_passes()
    passes.run(module, builder)
    return module


def _few_passes() -> Any:
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    return passes


def driver_object_code(text: str) -> bytes:
    """The object file of the driver, which calls what lies outside itself: large code."""
    with locks.LLVM:
        return bytes(_machine(LARGE).emit_object(optimised(text, vectorise=False)))


def object_code(text: str, vectorise: bool = True) -> bytes:
    """The object file of a module's text: small code where it stands alone, else large."""
    with locks.LLVM:
        module = optimised(text, vectorise)
        if not HAS_MEMORY_MANAGER or fills_or_copies(module):
            return bytes(_machine(LARGE).emit_object(module))
        kept = module.as_bitcode()  # emission changes a module
        data = bytes(_machine(SMALL).emit_object(module))
        return data if stands_alone(data) else bytes(_machine(LARGE).emit_object(llvm.parse_bitcode(kept)))


def fills_or_copies(module: Any) -> bool:
    """Whether code of an optimised module calls memset, memcpy or memmove, and so will not stand alone: for sizes that it computes, and
    for large ones."""
    if not any(function.name.startswith("llvm.mem") for function in module.functions):
        return False
    lines = (line for function in module.functions if not function.is_declaration for line in str(function).splitlines())
    return any("@llvm.mem" in line and _length(line) > MOST_INLINE for line in lines)


def _length(line: str) -> float:
    """The number of bytes that a call of llvm.mem… fills or copies, infinity where it is computed."""
    found = _CONSTANT_LENGTH.search(line)
    return int(found[1]) if found else math.inf


def stands_alone(data: bytes) -> bool:
    """Whether an object refers to nothing outside itself, so that small code may be loaded."""
    return HAS_MEMORY_MANAGER and undefined_symbols(data) <= NOT_CALLED


def assembly(text: str, vectorise: bool = True) -> str:
    """The assembly of a module's text, as it would be compiled when it stands alone."""
    with locks.LLVM:
        return str(_machine(SMALL).emit_assembly(optimised(text, vectorise)))


def with_layout(text: str) -> str:
    """A module's text with this machine's triple and data layout, for modules that carry none."""
    with locks.LLVM:
        layout = str(_machine(SMALL).target_data)
    return f'target triple = "{host().triple}"\ntarget datalayout = "{layout}"\n{text}'
