"""Compile one math function as a loop over arrays: for tests, benchmarks and reading the machine code.

Kernels don't go through here; they inline the function by `EMITTERS`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import llvmlite.binding as llvm
from gradopt.lowering.native.math import EMITTERS
from gradopt.lowering.native.math.lane import FORMATS
from llvmlite import ir


def loop_module(name: str, element_type: str, features: str) -> ir.Module:
    """A module with ``void loop(output, operand..., int64 n)`` that applies the function `name` n times."""
    function = EMITTERS[name]
    element, index = FORMATS[element_type].type, ir.IntType(64)
    module = ir.Module(name=name)
    pointers = [element.as_pointer()] * (function.arity + 1)
    loop = ir.Function(module, ir.FunctionType(ir.VoidType(), [*pointers, index]), "loop")
    for pointer in loop.args[:-1]:
        pointer.add_attribute("noalias")
    entry, body, leave = (loop.append_basic_block(label) for label in ("entry", "body", "leave"))
    builder = ir.IRBuilder(entry)
    builder.cbranch(builder.icmp_signed("<", index(0), loop.args[-1]), body, leave)
    builder.position_at_end(body)
    position = builder.phi(index)
    operands = [builder.load(builder.gep(pointer, [position])) for pointer in loop.args[1:-1]]
    value = function.emit(builder, operands, element_type, features)
    builder.store(value, builder.gep(loop.args[0], [position]))
    following = builder.add(position, index(1))
    position.add_incoming(index(0), entry)
    position.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, loop.args[-1]), body, leave)
    builder.position_at_end(leave)
    builder.ret_void()
    return module


@dataclass
class Loop:
    """A compiled loop. Call it with C-contiguous arrays of one dtype and size: ``loop(output, operand...)``."""

    assembly: str
    optimised: str
    _engine: Any
    _pointer: Any

    def __call__(self, output: Any, *operands: Any) -> Any:
        self.bind(output, *operands)()
        return output

    def bind(self, output: Any, *operands: Any) -> Callable[[], None]:
        """The call on these arrays, with its arguments prepared; the caller keeps the arrays alive."""
        arguments = [ctypes.c_void_p(array.ctypes.data) for array in (output, *operands)]
        return partial(self._pointer, *arguments, ctypes.c_int64(output.size))


def compile_loop(name: str, element_type: str, cpu: str | None = None, features: str | None = None) -> Loop:
    """Compile the function `name` for this machine, or for less of it: ``cpu="x86-64", features=""`` is plain SSE2."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    if cpu is None:
        cpu = llvm.get_host_cpu_name()
    if features is None:
        features = llvm.get_host_cpu_features().flatten()
    machine = llvm.Target.from_default_triple().create_target_machine(cpu=cpu, features=features, opt=3, jit=True)
    module = llvm.parse_assembly(str(loop_module(name, element_type, features)))
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.slp_vectorization = options.loop_interleaving = True
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    optimised, assembly = str(module), machine.emit_assembly(module)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    address = engine.get_function_address("loop")
    arity = EMITTERS[name].arity
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (arity + 1), ctypes.c_int64)
    return Loop(assembly, optimised, engine, prototype(address))
