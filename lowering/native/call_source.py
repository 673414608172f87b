"""The driver's other half: it checks a call's arguments, lays out its memory and wraps its results.

Three entries are called from outside:

    call_python(self, arguments, count)
        a METH_FASTCALL function of Python; `self` is the image as a NumPy array.  Gives the results, NotImplemented
        where an argument is not exactly what the program wants (the caller then looks closer, in Python), the bytes
        of a status record where a check failed, or 0 with an exception set.
    call_table(image, table)
        the same from a plain table, for processes in which the layout of NumPy's arrays is not known
    destroy(capsule)
        the destructor of the capsule that owns a result's memory
"""

from __future__ import annotations

SOURCE = '''
def new_frame(image):
    """A frame with the initial size table and pointers; 0 without memory."""
    frame = block_new(word(image, IMAGE_PROCESS), word(image, IMAGE_FRAME_BYTES))
    if frame == 0:
        return 0
    fill_bytes(frame, 0, WORD * FRAME_HEADER)
    set_word(frame, FRAME_IMAGE, image)
    sizes = frame + word(image, IMAGE_FRAME_SIZES)
    initial = word(image, IMAGE_SIZES)
    for index in range(word(image, IMAGE_SIZE_COUNT)):
        set_word(sizes, index, word(initial, index))
    pointers = frame + word(image, IMAGE_FRAME_POINTERS)
    initial = word(image, IMAGE_POINTERS)
    for index in range(word(image, IMAGE_BUFFER_COUNT)):
        set_word(pointers, index, word(initial, index))
    return frame


def free_frame(frame):
    arena = word(frame, FRAME_ARENA)
    if arena != 0:
        block_free(arena)
    scratch = word(frame, FRAME_AREA + CONTEXT_SCRATCH)
    if scratch != 0:
        block_free(scratch)
    return block_free(frame)


def bind_dimensions(image, frame, first, rank, dimensions, deferred):
    """Bind or check the sizes of one argument; with `deferred`, only against entries that were not bound by an
    argument.
    """
    sizes = frame + word(image, IMAGE_FRAME_SIZES)
    wanted = word(image, IMAGE_DIMENSIONS) + WORD * DIMENSION_WORDS * first
    for axis in range(rank):
        kind = word(wanted, DIMENSION_WORDS * axis)
        number = word(wanted, DIMENSION_WORDS * axis + 1)
        found = word(dimensions, axis)
        if kind == DIMENSION_STATIC:
            if deferred == 0 and found != number:
                return 1
        elif kind == DIMENSION_BIND:
            set_word(sizes, number, found)
        elif deferred != 0 and word(sizes, number) != found:
            return 1
    return 0


def check_array(image, frame, wanted, array):
    """Whether an object is exactly the array wanted; its address goes into the frame."""
    process = word(image, IMAGE_PROCESS)
    if word(array, OBJECT_TYPE) != word(word(process, HOST_ADDRESS), HOST_NDARRAY_TYPE):
        return 1
    if word(array, ARRAY_DESCRIPTOR) != word(wanted, 1):
        return 1
    if bit_and(i32_at(array, ARRAY_FLAGS_BYTES), ARRAY_WANTED_FLAGS) != ARRAY_WANTED_FLAGS:
        return 1
    rank = word(wanted, 2)
    if i32_at(array, ARRAY_RANK_BYTES) != rank:
        return 1
    set_word(frame + word(image, IMAGE_FRAME_POINTERS), word(wanted, 0), word(array, ARRAY_DATA))
    return bind_dimensions(image, frame, word(wanted, 3), rank, word(array, ARRAY_DIMENSIONS), 0)


def check_arguments(image, frame, arguments):
    count = word(image, IMAGE_ARGUMENT_COUNT)
    table = word(image, IMAGE_ARGUMENTS)
    for number in range(count):
        if check_array(image, frame, table + WORD * ARGUMENT_WORDS * number, word(arguments, number)) != 0:
            return 1
    compute_sizes(image, frame)
    if word(image, IMAGE_DEFERRED) != 0:
        for number in range(count):
            wanted = table + WORD * ARGUMENT_WORDS * number
            dimensions = word(word(arguments, number), ARRAY_DIMENSIONS)
            if bind_dimensions(image, frame, word(wanted, 3), word(wanted, 2), dimensions, 1) != 0:
                return 1
    return 0


def compute_sizes(image, frame):
    sizes = frame + word(image, IMAGE_FRAME_SIZES)
    step = word(image, IMAGE_COMPUTED)
    for number in range(word(image, IMAGE_COMPUTED_COUNT)):
        value = compute(word(step, 1), word(sizes, word(step, 2)), word(sizes, word(step, 3)))
        set_word(sizes, word(step, 0), value)
        step = step + WORD * COMPUTED_WORDS
    return 0


def prepare(image, frame):
    """Memory for temporaries and results.  Gives 0, or 1 without memory (results that exist are freed by the caller).
    """
    process = word(image, IMAGE_PROCESS)
    sizes = frame + word(image, IMAGE_FRAME_SIZES)
    pointers = frame + word(image, IMAGE_FRAME_POINTERS)
    bytes = word(sizes, word(image, IMAGE_ARENA))
    if bytes > 0:
        arena = block_new(process, bytes)
        if arena == 0:
            return 1
        set_word(frame, FRAME_ARENA, arena)
        item = word(image, IMAGE_TEMPORARIES)
        for number in range(word(image, IMAGE_TEMPORARY_COUNT)):
            set_word(pointers, word(item, 0), arena + word(sizes, word(item, 1)))
            item = item + WORD * TEMPORARY_WORDS
    place = frame + word(image, IMAGE_FRAME_DIMENSIONS)
    result = word(image, IMAGE_RESULTS)
    for number in range(word(image, IMAGE_RESULT_COUNT)):
        bytes = word(result, 4)
        wanted = word(image, IMAGE_DIMENSIONS) + WORD * DIMENSION_WORDS * word(result, 3)
        for axis in range(word(result, 2)):
            dimension = word(wanted, DIMENSION_WORDS * axis + 1)
            if word(wanted, DIMENSION_WORDS * axis) == DIMENSION_ENTRY:
                dimension = maximum(word(sizes, dimension), 0)
            set_word(place, 0, dimension)
            bytes = bytes * dimension
            place = place + WORD
        block = block_new(process, bytes)
        if block == 0:
            return 1
        set_word(pointers, word(result, 0), block)
        result = result + WORD * RESULT_WORDS
    return 0


def free_results(image, frame):
    pointers = frame + word(image, IMAGE_FRAME_POINTERS)
    result = word(image, IMAGE_RESULTS)
    for number in range(word(image, IMAGE_RESULT_COUNT)):
        block = word(pointers, word(result, 0))
        if block != 0:
            block_free(block)
        result = result + WORD * RESULT_WORDS
    return 0


def wrap_result(host, result, block, dimensions):
    """A new array over a block; the capsule that is its base gives the block back when the last view dies.  0 on
    failure.
    """
    capsule = call(word(host, HOST_PYCAPSULE_NEW), block, 0, word(host, HOST_DESTRUCTOR))
    if capsule == 0:
        block_free(block)
        return 0
    descriptor = word(result, 1)
    call(word(host, HOST_PY_INCREF), descriptor)
    kind = word(host, HOST_NDARRAY_TYPE)
    array = call(word(host, HOST_PYARRAY_NEWFROMDESCR), kind, descriptor, word(result, 2), dimensions, 0, block,
                 ARRAY_RESULT_FLAGS, 0)
    if array == 0:
        call(word(host, HOST_PY_DECREF), capsule)
        return 0
    if call_int(word(host, HOST_PYARRAY_SETBASEOBJECT), array, capsule) != 0:
        call(word(host, HOST_PY_DECREF), array)
        return 0
    return array


def wrap_results(image, frame):
    """The array, or the tuple of arrays, of a finished frame; 0 with an exception set on failure."""
    host = word(word(image, IMAGE_PROCESS), HOST_ADDRESS)
    pointers = frame + word(image, IMAGE_FRAME_POINTERS)
    dimensions = frame + word(image, IMAGE_FRAME_DIMENSIONS)
    result = word(image, IMAGE_RESULTS)
    count = word(image, IMAGE_RESULT_COUNT)
    if count == 1 and word(image, IMAGE_SINGLE) != 0:
        return wrap_result(host, result, word(pointers, word(result, 0)), dimensions)
    values = call(word(host, HOST_PYTUPLE_NEW), count)
    failed = values == 0
    for number in range(count):
        block = word(pointers, word(result, 0))
        if failed:
            block_free(block)
        else:
            array = wrap_result(host, result, block, dimensions)
            if array == 0:
                call(word(host, HOST_PY_DECREF), values)
                failed = True
            else:
                call_int(word(host, HOST_PYTUPLE_SETITEM), values, number, array)
        dimensions = dimensions + WORD * word(result, 2)
        result = result + WORD * RESULT_WORDS
    if failed:
        return 0
    return values


def run_frame(image, frame):
    """Execute, with the GIL released for all but very short programs."""
    host = word(word(image, IMAGE_PROCESS), HOST_ADDRESS)
    if word(image, IMAGE_RELEASE_GIL) == 0:
        return execute(image, frame)
    set_word(frame, FRAME_THREAD, call(word(host, HOST_PYEVAL_SAVETHREAD)))
    status = execute(image, frame)
    call(word(host, HOST_PYEVAL_RESTORETHREAD), word(frame, FRAME_THREAD))
    return status


def not_implemented(host):
    call(word(host, HOST_PY_INCREF), word(host, HOST_NOT_IMPLEMENTED))
    return word(host, HOST_NOT_IMPLEMENTED)


def call_python(self, arguments, count):
    image = word(self, ARRAY_DATA)
    process = word(image, IMAGE_PROCESS)
    host = word(process, HOST_ADDRESS)
    if count != word(image, IMAGE_ARGUMENT_COUNT):
        return not_implemented(host)
    if word(image, IMAGE_USES_POOL) != 0 and word(process, POOL_READY) == 0:
        return not_implemented(host)
    frame = new_frame(image)
    if frame == 0:
        return call(word(host, HOST_PYERR_NOMEMORY))
    if check_arguments(image, frame, arguments) != 0:
        free_frame(frame)
        return not_implemented(host)
    if prepare(image, frame) != 0:
        free_results(image, frame)
        free_frame(frame)
        return call(word(host, HOST_PYERR_NOMEMORY))
    status = run_frame(image, frame)
    values = 0
    if status == STATUS_OK:
        values = wrap_results(image, frame)
    else:
        free_results(image, frame)
        if status == STATUS_FAILED:
            record = frame + WORD * FRAME_RECORD
            values = call(word(host, HOST_PYBYTES_FROMSTRINGANDSIZE), record, WORD * STATUS_WORDS)
        if status == STATUS_NO_MEMORY:
            values = call(word(host, HOST_PYERR_NOMEMORY))
    free_frame(frame)
    return values


def call_table(image, table):
    """table: an address and its dimensions for each argument; filled with the record, then an address and dimensions
    a result.

    Called with the GIL released, so nothing of Python is touched and no signal is looked for.  Gives a STATUS_*, or
    -1 where a shape is wrong.  The caller frees the results with block_free.
    """
    frame = new_frame(image)
    if frame == 0:
        return STATUS_NO_MEMORY
    pointers = frame + word(image, IMAGE_FRAME_POINTERS)
    status = -1
    if bind_table(image, frame, table, 0) == 0:
        compute_sizes(image, frame)
        if bind_table(image, frame, table, 1) == 0:
            status = STATUS_NO_MEMORY
            if prepare(image, frame) == 0:
                status = execute(image, frame)
            if status != STATUS_OK:
                free_results(image, frame)
    copy_bytes(table, frame + WORD * FRAME_RECORD, WORD * STATUS_WORDS)
    place = table + WORD * STATUS_WORDS
    dimensions = frame + word(image, IMAGE_FRAME_DIMENSIONS)
    result = word(image, IMAGE_RESULTS)
    for number in range(word(image, IMAGE_RESULT_COUNT)):
        set_word(place, 0, word(pointers, word(result, 0)))
        copy_bytes(place + WORD, dimensions, WORD * word(result, 2))
        place = place + WORD * (1 + word(result, 2))
        dimensions = dimensions + WORD * word(result, 2)
        result = result + WORD * RESULT_WORDS
    free_frame(frame)
    return status


def bind_table(image, frame, table, deferred):
    pointers = frame + word(image, IMAGE_FRAME_POINTERS)
    wanted = word(image, IMAGE_ARGUMENTS)
    for number in range(word(image, IMAGE_ARGUMENT_COUNT)):
        rank = word(wanted, 2)
        set_word(pointers, word(wanted, 0), word(table, 0))
        if bind_dimensions(image, frame, word(wanted, 3), rank, table + WORD, deferred) != 0:
            return 1
        table = table + WORD * (1 + rank)
        wanted = wanted + WORD * ARGUMENT_WORDS
    return 0


def destroy(capsule):
    """The destructor of a result's capsule: it finds the host table through the block, which it finds by the
    capsule's first word.
    """
    block = word(capsule, CAPSULE_POINTER)
    return block_free(block)
'''
