"""Where the driver keeps what: word numbers of the process block, of a program's image, of a call's frame, and
operation codes.

Everything is int64 words.  The process block is one for the process; the image is one for each executable and never
changes during a call; a frame is one for each running call.
"""

from __future__ import annotations

from gradopt.lowering.native import context

WORD = 8
LINE = 16
"""Words between things that different threads write (two cache lines: processors fetch lines in pairs)."""

# -- the process block: the pool
POOL_EPOCH = 0 * LINE
POOL_TICKET = 1 * LINE
POOL_DONE = 2 * LINE
POOL_SLEEPERS = 3 * LINE
POOL_LOCK = 4 * LINE
POOL_STOP = 5 * LINE
POOL_WORKERS = POOL_STOP + 1
"""Workers that are running."""
POOL_READY = POOL_STOP + 2
"""1 once the workers that should run have been started (by Python, when the first program that can use them is
called).
"""
POOL_GENERATION = POOL_STOP + 3
REGION = 6 * LINE
"""The region that is being run: written by the thread that holds the lock, read by the workers."""
REGION_KERNEL, REGION_EXTENT, REGION_GRAIN, REGION_CHUNKS = REGION, REGION + 1, REGION + 2, REGION + 3
REGION_OPERANDS, REGION_PARAMETERS, REGION_SCRATCH = REGION + 4, REGION + 5, REGION + 6
REGION_FAILURES, REGION_RECORD = REGION + 7, REGION + 8
REGION_PROFILE, REGION_INSTRUCTION = REGION + 9, REGION + 10
"""The profile that chunks are written down in (0: none), and the instruction that they belong to."""
REGION_WORDS = 16
FAILURE_LOCK = 7 * LINE
ROUTINES_ADDRESS = 8 * LINE
HOST_ADDRESS = ROUTINES_ADDRESS + 1
"""Address of the table of functions of the C library, Python and NumPy (HOST_NAMES)."""
CONDITION = 9 * LINE
"""A mutex and a condition variable where there is no futex (16 words each)."""
CONDITION_WORDS = 16
MUTEX = CONDITION
CONDITION_VARIABLE = CONDITION + CONDITION_WORDS

# -- the process block: free memory
MEMORY_LOCK = 12 * LINE
MEMORY_IDLE = MEMORY_LOCK + 1
MEMORY_LIMIT = MEMORY_LOCK + 2
MEMORY_LISTS = 13 * LINE
MEMORY_CLASSES = 64 * 8

# -- the process block: where workers may run (Linux)
MOST_THREADS = 1024
AFFINITY_WORDS = 16
"""Words of a set of processors: 1,024 of them."""
POOL_PLACED = MEMORY_LISTS + MEMORY_CLASSES
"""1 when sleeping workers are placed by the thread that wakes them."""
POOL_AFFINITY = POOL_PLACED + LINE
"""The processors that workers may run on."""
POOL_THREADS = POOL_AFFINITY + AFFINITY_WORDS
"""The system's number of each worker's thread."""
PROCESS_WORDS = POOL_THREADS + MOST_THREADS

# -- the header of a block of memory, 64 bytes before its data
HEADER_BYTES = 64
HEADER_PROCESS, HEADER_CLASS, HEADER_SIZE, HEADER_NEXT, HEADER_RAW = -8, -7, -6, -5, -4

# -- what a thread needs to run chunks (one for each worker and one in each frame)
AREA_CONTEXT = 0
AREA_STATUS = context.CONTEXT_WORDS
AREA_WORDS = 4 * LINE

# -- a program's image
(
    IMAGE_PROCESS, IMAGE_FRAME_BYTES, IMAGE_INSTRUCTIONS, IMAGE_COUNT, IMAGE_LISTS, IMAGE_SIZES, IMAGE_SIZE_COUNT,
    IMAGE_COMPUTED, IMAGE_COMPUTED_COUNT, IMAGE_POINTERS, IMAGE_BUFFER_COUNT, IMAGE_TEMPORARIES, IMAGE_TEMPORARY_COUNT,
    IMAGE_ARGUMENTS, IMAGE_ARGUMENT_COUNT, IMAGE_RESULTS, IMAGE_RESULT_COUNT, IMAGE_DIMENSIONS, IMAGE_DEFERRED,
    IMAGE_ARENA, IMAGE_SCRATCH, IMAGE_USES_POOL, IMAGE_RELEASE_GIL, IMAGE_SINGLE, IMAGE_PROFILE,
    IMAGE_FRAME_SIZES, IMAGE_FRAME_POINTERS, IMAGE_FRAME_OPERANDS, IMAGE_FRAME_PARAMETERS, IMAGE_FRAME_DIMENSIONS,
) = range(30)  # fmt: skip
IMAGE_HEADER = 32
# IMAGE_INSTRUCTIONS … IMAGE_DIMENSIONS hold addresses of sections of the image; IMAGE_ARENA and IMAGE_SCRATCH entries
# of the size table; IMAGE_FRAME_* byte offsets in the frame.

INSTRUCTION_WORDS = 8
(
    OP_RUN, OP_LOOP_BEGIN, OP_LOOP_END, OP_JUMP, OP_JUMP_UNLESS, OP_SWITCH, OP_SET_SIZE, OP_COMPUTE, OP_SWAP, OP_COPY,
    OP_FILL, OP_CHECK, OP_POINT,
) = range(13)  # fmt: skip
COMPUTED_WORDS = 4  # target, operation, left, right
TEMPORARY_WORDS = 2  # buffer, entry of the size table that holds its offset
ARGUMENT_WORDS = 4  # buffer, descriptor, rank, first dimension
RESULT_WORDS = 5  # buffer, descriptor, rank, first dimension, item size
DIMENSION_WORDS = 2  # kind, number
DIMENSION_STATIC, DIMENSION_BIND, DIMENSION_ENTRY = range(3)

# -- a call's frame
FRAME_IMAGE, FRAME_ARENA, FRAME_THREAD, FRAME_CLOCK = range(4)
FRAME_RECORD = 8
"""The status record of the program (context.STATUS_*)."""
FRAME_AREA = 16
FRAME_HEADER = FRAME_AREA + AREA_WORDS

STATUS_OK, STATUS_FAILED, STATUS_INTERRUPTED, STATUS_NO_MEMORY = range(4)

# -- profiles: header words, then a (count, nanoseconds) pair an instruction, then events
PROFILE_CAPACITY, PROFILE_NEXT, PROFILE_COUNT, PROFILE_HEADER = 0, 1, 2, 8
"""How many events there is room for, the number of the next one, and how many instructions the program has."""
PROFILE_TOTAL_WORDS = 2
PROFILE_EVENT_WORDS = 5  # instruction, begin, end, area of the thread, chunk (-1 for an instruction as a whole)

HOST_NAMES = (
    "malloc", "free", "clock", "yield_thread", "wait", "wake", "mutex_lock", "mutex_unlock",
    "current_processor", "set_affinity",
    "PyEval_SaveThread", "PyEval_RestoreThread", "PyErr_CheckSignals", "PyErr_NoMemory", "PyCapsule_New",
    "PyCapsule_GetPointer", "Py_IncRef", "Py_DecRef", "PyTuple_New", "PyTuple_SetItem", "PyBytes_FromStringAndSize",
    "PyArray_NewFromDescr", "PyArray_SetBaseObject", "ndarray_type", "not_implemented", "destructor",
)  # fmt: skip
"""Functions (and two objects) that the driver calls by address, in the order of the table."""

WAIT_FUTEX, WAIT_CONDITION, WAIT_ADDRESS = range(3)
CLOCK_POSIX, CLOCK_WINDOWS = range(2)

SIGNAL_INTERVAL = 50_000_000
"""Nanoseconds between two looks at pending signals."""
SPINS = 3000
"""Turns of a spin loop before a worker sleeps, or a caller yields its processor: some tens of microseconds."""


def constants() -> dict[str, int | float]:
    """Every number of this module and of the kernels' context, by name, for the driver's source."""
    numbers: dict[str, int | float] = {
        name: value for name, value in globals().items() if name.isupper() and isinstance(value, int)
    }
    numbers.update({f"CONTEXT_{name}": getattr(context, name) for name in ("OPERANDS", "PARAMETERS", "ROUTINES", "SCRATCH")})
    numbers.update(CONTEXT_SCRATCH_SIZE=context.SCRATCH_SIZE, CONTEXT_CHUNK=context.CHUNK, CONTEXT_STATUS=context.STATUS)
    numbers.update({name: getattr(context, name) for name in dir(context) if name.startswith("STATUS_")})
    numbers.update({f"HOST_{name.upper()}": position for position, name in enumerate(HOST_NAMES)})
    return numbers
