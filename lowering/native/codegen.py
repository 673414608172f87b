"""LLVM IR to object code for this machine's processor, and object code to addresses.

Engines are never destroyed: kernels, the driver and the destructors of results may run until the last moment of the
process.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import llvmlite
import llvmlite.binding as llvm
from gradopt.lowering.native import locks

OPTIMISATION = 3
_ENGINES: list[Any] = []


@dataclass(frozen=True)
class Target:
    """The processor that code is made for."""

    triple: str
    cpu: str
    features: str

    def identity(self) -> str:
        """Everything about the target and LLVM that changes machine code."""
        version = ".".join(str(part) for part in llvm.llvm_version_info)
        return f"{self.triple}|{self.cpu}|{self.features}|llvm {version}|llvmlite {llvmlite.__version__}|O{OPTIMISATION}"


@functools.cache
def host() -> Target:
    """This machine."""
    _initialise()
    return Target(llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())


@functools.cache
def _initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def target_machine(target: Target | None = None) -> Any:
    """A fresh target machine (for this machine by default)."""
    target = target or host()
    description = llvm.Target.from_triple(target.triple)
    return description.create_target_machine(
        cpu=target.cpu, features=target.features, opt=OPTIMISATION, reloc="pic", codemodel="jitdefault", jit=True
    )


@functools.cache
def _machine() -> Any:
    return target_machine()


def optimised(text: str) -> Any:
    """Parse a module, check it and run LLVM's optimiser with the loop vectoriser.  Call with the lock held."""
    machine = _machine()
    module = llvm.parse_assembly(text)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=OPTIMISATION)
    options.loop_vectorization = True
    options.loop_interleaving = True
    options.loop_unrolling = True
    options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return module


def object_code(text: str) -> bytes:
    """The object file of a module's text."""
    with locks.LLVM:
        return bytes(_machine().emit_object(optimised(text)))


def assembly(text: str) -> str:
    """The assembly of a module's text, as it would be compiled."""
    with locks.LLVM:
        return str(_machine().emit_assembly(optimised(text)))


def load(objects: Iterable[bytes], names: Iterable[str]) -> dict[str, int]:
    """Load object files into this process and give the address of each name.

    Raises RuntimeError when an object is not one or a name is missing.
    """
    with locks.LLVM:
        _initialise()
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine())
        for data in objects:
            engine.add_object_file(llvm.ObjectFileRef.from_data(data))
        engine.finalize_object()
        addresses = {name: int(engine.get_function_address(name)) for name in names}
        _ENGINES.append(engine)
        engine.detach()
    missing = [name for name, address in addresses.items() if address == 0]
    if missing:
        raise RuntimeError(f"object code without the symbol {missing[0]}")
    return addresses


def with_layout(text: str) -> str:
    """A module's text with this machine's triple and data layout, for modules that carry none."""
    with locks.LLVM:
        layout = str(_machine().target_data)
    return f'target triple = "{host().triple}"\ntarget datalayout = "{layout}"\n{text}'


Addresses = Mapping[str, int]
