"""The process block and the driver's machine code: made once a process, on first use.

The driver is compiled by the direct front end, stored in the cache like any kernel, and never unloaded: destructors
of results and parked workers may need it until the very end of the process.
"""

from __future__ import annotations

import ast
import ctypes
import functools
import platform
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradopt.lowering.native import cache, layout, locks

ENTRIES = (
    "call_python",
    "call_table",
    "destroy",
    "worker",
    "stop_workers",
    "block_new",
    "block_free",
    "free_idle_memory",
    "try_pool_lock",
)
DEFAULT_IDLE_BYTES = 512 << 20
INLINED = 150
"""Functions of at most so many nodes of syntax are inlined wherever they are called."""

# The fields of CPython's and NumPy's objects that the driver reads: words, or bytes for the 32-bit ones.
OBJECT_LAYOUT = {
    "OBJECT_TYPE": 1,
    "ARRAY_DATA": 2,
    "ARRAY_RANK_BYTES": 24,
    "ARRAY_DIMENSIONS": 4,
    "ARRAY_DESCRIPTOR": 7,
    "ARRAY_FLAGS_BYTES": 64,
    "ARRAY_WANTED_FLAGS": 0x0101,  # C-contiguous and aligned
    "ARRAY_RESULT_FLAGS": 0x0501,  # the same and writeable
    "CAPSULE_POINTER": 2,
}
_FUTEX_NUMBERS = {"x86_64": 202, "aarch64": 98, "riscv64": 98}
_NEW_FROM_DESCR, _SET_BASE_OBJECT = 94, 282
"""Positions in NumPy's table of functions, the same in every release of NumPy 1 and 2."""


def wait_kind() -> int:
    """How workers sleep on this system (GRADOPT_POOL_WAIT=condition chooses the portable way on any POSIX system)."""
    import os

    if sys.platform == "win32":
        return layout.WAIT_ADDRESS
    known = sys.platform == "linux" and platform.machine() in _FUTEX_NUMBERS
    return layout.WAIT_FUTEX if known and os.environ.get("GRADOPT_POOL_WAIT") != "condition" else layout.WAIT_CONDITION


def _constants() -> dict[str, int | float]:
    numbers = layout.constants() | OBJECT_LAYOUT
    numbers["WAIT_KIND"] = wait_kind()
    numbers["FUTEX"] = _FUTEX_NUMBERS.get(platform.machine(), 0)
    numbers["CLOCK_KIND"] = layout.CLOCK_WINDOWS if sys.platform == "win32" else layout.CLOCK_POSIX
    numbers["CLOCK_MONOTONIC"] = 6 if sys.platform == "darwin" else 1
    return numbers


def source() -> str:
    """The text of the pool and the driver."""
    from gradopt.lowering.native.call_source import SOURCE as call
    from gradopt.lowering.native.driver_source import SOURCE as execution
    from gradopt.lowering.native.pool_source import SOURCE as pool

    return pool + execution + call


def module_text() -> str:
    """The driver as an LLVM module: every function internal but the entries."""
    from gradopt.lowering.native import codegen
    from gradopt.lowering.native.frontend import compile_function, parse_functions
    from gradopt.lowering.native.function_compiler import Function
    from gradopt.lowering.native.intrinsics_driver import DRIVER
    from gradopt.lowering.native.values import I64, INT64
    from llvmlite import ir

    text = source()
    module = ir.Module("driver")
    module.triple = codegen.host().triple
    nodes = parse_functions(text)
    functions: dict[str, Function] = {}
    for node in nodes:
        count = len(node.args.args)
        name = f"gradopt_driver_{node.name}"
        function = ir.Function(module, ir.FunctionType(I64, [I64] * count), name)
        if node.name not in ENTRIES:
            function.linkage = "internal"
            if sum(1 for _ in ast.walk(node)) <= INLINED:
                function.attributes.add("alwaysinline")
        functions[node.name] = Function(function, (INT64,) * count, INT64)
    lines, constants = text.splitlines(), _constants()
    for node in nodes:
        entry = functions[node.name]
        compile_function(node, lines, entry, DRIVER, functions, constants=constants)
    return codegen.with_layout("\n".join(line for line in str(module).splitlines() if not line.startswith("target ")))


def _object_code(folder: Path | None) -> bytes:
    from gradopt.lowering.native import codegen
    from gradopt.lowering.native.compile import compiler_digest

    constants = ",".join(f"{name}={value}" for name, value in sorted(_constants().items()))
    key = cache.key("driver", compiler_digest(), source(), constants, codegen.host().identity())
    data = cache.read(folder, key)
    if data is None:
        data = codegen.driver_object_code(module_text())
        cache.write(folder, key, data, source())
    return data


def layout_is_known() -> bool:
    """Whether CPython's and NumPy's objects lie in memory as OBJECT_LAYOUT says, tried on real arrays and a capsule."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8 or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    import numpy

    def word(object_: object, index: int) -> int:
        return ctypes.c_int64.from_address(id(object_) + 8 * index).value

    def number(object_: object, offset: int) -> int:
        return ctypes.c_int32.from_address(id(object_) + offset).value

    read_only = numpy.zeros((3, 4), numpy.float64)
    read_only.flags.writeable = False
    for array in (
        numpy.zeros((2, 3, 5), numpy.float32),
        numpy.zeros((), numpy.int64),
        numpy.ones((7, 3))[::2, 1:],
        read_only,
    ):
        dimensions = (
            (ctypes.c_int64 * array.ndim).from_address(word(array, OBJECT_LAYOUT["ARRAY_DIMENSIONS"])) if array.ndim else ()
        )
        if (
            word(array, OBJECT_LAYOUT["OBJECT_TYPE"]) != id(numpy.ndarray)
            or word(array, OBJECT_LAYOUT["ARRAY_DATA"]) != array.ctypes.data
            or number(array, OBJECT_LAYOUT["ARRAY_RANK_BYTES"]) != array.ndim
            or tuple(dimensions) != array.shape
            or word(array, OBJECT_LAYOUT["ARRAY_DESCRIPTOR"]) != id(array.dtype)
            or number(array, OBJECT_LAYOUT["ARRAY_FLAGS_BYTES"]) != array.flags.num
        ):
            return False
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return word(make(0x1234560, None, None), OBJECT_LAYOUT["CAPSULE_POINTER"]) == 0x1234560


def _c_functions() -> dict[str, int]:
    """Addresses of the functions of the operating system."""
    kind = wait_kind()
    if sys.platform == "win32":
        runtime, kernel = ctypes.CDLL("msvcrt"), ctypes.WinDLL("kernelbase")
        names: dict[str, Any] = {
            "malloc": runtime.malloc,
            "free": runtime.free,
            "clock": kernel.QueryPerformanceCounter,
            "yield_thread": kernel.SwitchToThread,
            "wait": kernel.WaitOnAddress,
            "wake": kernel.WakeByAddressAll,
        }
    else:
        runtime = ctypes.CDLL(None)
        futex = kind == layout.WAIT_FUTEX
        names = {
            "malloc": runtime.malloc,
            "free": runtime.free,
            "clock": runtime.clock_gettime,
            "yield_thread": runtime.sched_yield,
            "wait": runtime.syscall if futex else runtime.pthread_cond_wait,
            "wake": runtime.syscall if futex else runtime.pthread_cond_broadcast,
            "mutex_lock": runtime.pthread_mutex_lock,
            "mutex_unlock": runtime.pthread_mutex_unlock,
        }
        if futex:
            names |= {"current_processor": runtime.sched_getcpu, "set_affinity": runtime.sched_setaffinity}
    return {name: _address(function) for name, function in names.items()}


def _address(function: Any) -> int:
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


def _python_functions() -> dict[str, int]:
    """Addresses of the functions and objects of CPython and NumPy."""
    import numpy

    table = {
        name: _address(getattr(ctypes.pythonapi, name))
        for name in layout.HOST_NAMES
        if name.startswith(("PyE", "PyC", "Py_", "PyT", "PyB"))
    }
    core = getattr(numpy, "_core", None) or numpy.core
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    functions = int(pointer(core._multiarray_umath._ARRAY_API, None))
    for name, position in (("PyArray_NewFromDescr", _NEW_FROM_DESCR), ("PyArray_SetBaseObject", _SET_BASE_OBJECT)):
        table[name] = ctypes.c_int64.from_address(functions + 8 * position).value
    table["ndarray_type"], table["not_implemented"] = id(numpy.ndarray), id(NotImplemented)
    return table


@dataclass(frozen=True)
class Process:
    """The process block, the driver's entries, and whether the direct call (call_python) may be used."""

    block: int
    entries: Mapping[str, int]
    direct: bool

    def word(self, index: int) -> int:
        return ctypes.c_int64.from_address(self.block + layout.WORD * index).value

    def set_word(self, index: int, value: int) -> None:
        ctypes.c_int64.from_address(self.block + layout.WORD * index).value = value

    def call(self, entry: str, *arguments: int) -> int:
        """Call an entry of the driver with the GIL released."""
        return _function(self.entries[entry], len(arguments))(*arguments)  # type: ignore[no-any-return]


@functools.cache
def _function(address: int, count: int) -> Any:
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * count)(address)


_PROCESS: list[Process] = []


def process() -> Process:
    """The one process block, made on first use and never freed."""
    if not _PROCESS:
        with locks.PROCESS:
            if not _PROCESS:
                _PROCESS.append(_new_process())
    return _PROCESS[0]


def _new_process() -> Process:
    from gradopt.lowering.native import loading, routines

    symbols = {entry: f"gradopt_driver_{entry}" for entry in ENTRIES}
    code = loading.load([_object_code(cache.open_folder())], symbols.values())
    entries = {entry: code.addresses[symbol] for entry, symbol in symbols.items()}
    addresses = _c_functions() | _python_functions() | {"destructor": entries["destroy"]}
    host = (ctypes.c_int64 * len(layout.HOST_NAMES))(*[addresses.get(name, 0) for name in layout.HOST_NAMES])
    memory = ctypes.create_string_buffer(layout.WORD * layout.PROCESS_WORDS + 128)
    block = (ctypes.addressof(memory) + 127) & -128
    made = Process(block, entries, layout_is_known())
    made.set_word(layout.HOST_ADDRESS, ctypes.addressof(host))
    made.set_word(layout.ROUTINES_ADDRESS, routines.table_address())
    made.set_word(layout.MEMORY_LIMIT, DEFAULT_IDLE_BYTES)
    _initialise_condition(made)
    _keep_for_ever(memory, host, code)
    return made


def _initialise_condition(made: Process) -> None:
    if wait_kind() == layout.WAIT_CONDITION:
        runtime = ctypes.CDLL(None)
        runtime.pthread_mutex_init(ctypes.c_void_p(made.block + layout.WORD * layout.MUTEX), None)
        runtime.pthread_cond_init(ctypes.c_void_p(made.block + layout.WORD * layout.CONDITION_VARIABLE), None)


def _keep_for_ever(*objects: object) -> None:
    """Parked threads and late destructors use these after the interpreter has dropped its modules."""
    for object_ in objects:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(object_))


def reset_after_fork() -> None:
    """In a forked child, which has none of its parent's other threads: a fresh pool, no lock held, no idle memory
    known.

    Another thread of the parent may have been inside the memory lists when the fork happened, so what lies idle there
    is given up.
    """
    if not _PROCESS:
        return
    made = _PROCESS[0]
    kept = {index: made.word(index) for index in (layout.HOST_ADDRESS, layout.ROUTINES_ADDRESS, layout.MEMORY_LIMIT)}
    ctypes.memset(made.block, 0, layout.WORD * layout.PROCESS_WORDS)
    for index, value in kept.items():
        made.set_word(index, value)
    _initialise_condition(made)


def set_idle_limit(nbytes: int) -> None:
    """How many bytes of free memory may be kept for later calls (512 MiB at first); less than lies idle now releases
    it all.
    """
    if nbytes < 0:
        raise ValueError(f"idle limit {nbytes}: expected a number of bytes >= 0")
    process().set_word(layout.MEMORY_LIMIT, nbytes)
    if process().word(layout.MEMORY_IDLE) > nbytes:
        process().call("free_idle_memory", process().block)


def idle_bytes() -> int:
    """Bytes of memory kept for later calls."""
    return process().word(layout.MEMORY_IDLE)
