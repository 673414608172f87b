"""The driver: it runs a program's instructions.

In the language of kernels, compiled by frontend.py together with pool_source.py (the pool) and call_source.py (what
comes before and after the instructions).
"""

from __future__ import annotations

SOURCE = '''
def compute(operation, left, right):
    """The operations of the size table, in the order of program.SIZE_OPERATIONS."""
    if operation == 0:
        return left + right
    if operation == 1:
        return left - right
    if operation == 2:
        return left * right
    if operation == 3:
        return floor_divide(left, right)
    if operation == 4:
        return 0 - floor_divide(0 - left, right)
    if operation == 5:
        return modulo(left, right)
    if operation == 6:
        return maximum(left, right)
    return minimum(left, right)


def read_integer(address, code):
    """The integer scalar at an address; the code is the position of its type in driver.INTEGER_CODES."""
    if code == 0:
        return ui8_at(address, 0)
    if code == 1:
        return i8_at(address, 0)
    if code == 2:
        return i16_at(address, 0)
    if code == 3:
        return i32_at(address, 0)
    if code == 4:
        return i64_at(address, 0)
    if code == 5:
        return ui8_at(address, 0)
    if code == 6:
        return ui16_at(address, 0)
    if code == 7:
        return ui32_at(address, 0)
    value = i64_at(address, 0)
    if value < 0:
        return 9223372036854775807
    return value


def run_kernel(image, frame, instruction):
    """OP_RUN kernel extent grain operands count parameters count"""
    process = word(image, IMAGE_PROCESS)
    sizes = frame + word(image, IMAGE_FRAME_SIZES)
    pointers = frame + word(image, IMAGE_FRAME_POINTERS)
    extent = word(sizes, word(instruction, 2))
    grain = maximum(word(sizes, word(instruction, 3)), 1)
    if extent <= 0:
        return 0
    operands = frame + word(image, IMAGE_FRAME_OPERANDS)
    chosen = word(image, IMAGE_LISTS) + WORD * word(instruction, 4)
    for slot in range(word(instruction, 5)):
        set_word(operands, slot, word(pointers, word(chosen, slot)))
    parameters = frame + word(image, IMAGE_FRAME_PARAMETERS)
    chosen = word(image, IMAGE_LISTS) + WORD * word(instruction, 6)
    for slot in range(word(instruction, 7)):
        set_word(parameters, slot, word(sizes, word(chosen, slot)))
    region = stack_words(REGION_WORDS)
    set_word(region, REGION_KERNEL - REGION, word(instruction, 1))
    set_word(region, REGION_EXTENT - REGION, extent)
    set_word(region, REGION_GRAIN - REGION, grain)
    chunks = 1
    if extent > grain:
        chunks = index_divide(extent - 1, grain) + 1
    set_word(region, REGION_CHUNKS - REGION, chunks)
    set_word(region, REGION_OPERANDS - REGION, operands)
    set_word(region, REGION_PARAMETERS - REGION, parameters)
    set_word(region, REGION_SCRATCH - REGION, word(sizes, word(image, IMAGE_SCRATCH)))
    set_word(region, REGION_RECORD - REGION, frame + WORD * FRAME_RECORD)
    profile = word(image, IMAGE_PROFILE)
    set_word(region, REGION_PROFILE - REGION, profile)
    if profile != 0:
        begin = instruction - word(image, IMAGE_INSTRUCTIONS)
        set_word(region, REGION_INSTRUCTION - REGION, index_divide(begin, WORD * INSTRUCTION_WORDS))
    return run_region(process, frame + WORD * FRAME_AREA, region)


def run_scalar(image, frame, instruction, position):
    """Every instruction that is not a kernel; gives the position of the next one, or -1 after a failed check."""
    operation = word(instruction, 0)
    sizes = frame + word(image, IMAGE_FRAME_SIZES)
    pointers = frame + word(image, IMAGE_FRAME_POINTERS)
    if operation == OP_LOOP_END:  # begin, induction, trip
        index = word(sizes, word(instruction, 2)) + 1
        set_word(sizes, word(instruction, 2), index)
        if index < word(sizes, word(instruction, 3)):
            return word(instruction, 1) + 1
        return position + 1
    if operation == OP_COMPUTE:  # target, operation, left, right
        value = compute(word(instruction, 2), word(sizes, word(instruction, 3)), word(sizes, word(instruction, 4)))
        set_word(sizes, word(instruction, 1), value)
        return position + 1
    if operation == OP_LOOP_BEGIN:  # end, induction, kept trip, trip
        trip = word(sizes, word(instruction, 4))
        set_word(sizes, word(instruction, 3), trip)
        set_word(sizes, word(instruction, 2), 0)
        if trip <= 0:
            return word(instruction, 1) + 1
        return position + 1
    if operation == OP_JUMP:
        return word(instruction, 1)
    if operation == OP_JUMP_UNLESS:  # target, buffer
        if ui8_at(word(pointers, word(instruction, 2)), 0) == 0:
            return word(instruction, 1)
        return position + 1
    if operation == OP_SWAP:
        kept = word(pointers, word(instruction, 1))
        set_word(pointers, word(instruction, 1), word(pointers, word(instruction, 2)))
        set_word(pointers, word(instruction, 2), kept)
        return position + 1
    if operation == OP_POINT:  # window, base, offset
        moved = word(pointers, word(instruction, 2)) + word(sizes, word(instruction, 3))
        set_word(pointers, word(instruction, 1), moved)
        return position + 1
    if operation == OP_SWITCH:  # buffer, integer code, first target in the lists, count
        choice = read_integer(word(pointers, word(instruction, 1)), word(instruction, 2))
        choice = maximum(minimum(choice, word(instruction, 4) - 1), 0)
        return word(word(image, IMAGE_LISTS), word(instruction, 3) + choice)
    return run_memory(frame, instruction, position, sizes, pointers)


def run_memory(frame, instruction, position, sizes, pointers):
    operation = word(instruction, 0)
    if operation == OP_SET_SIZE:  # target, buffer, integer code
        value = read_integer(word(pointers, word(instruction, 2)), word(instruction, 3))
        set_word(sizes, word(instruction, 1), value)
    if operation == OP_COPY:  # destination, source, bytes
        bytes = maximum(word(sizes, word(instruction, 3)), 0)
        copy_bytes(word(pointers, word(instruction, 1)), word(pointers, word(instruction, 2)), bytes)
    if operation == OP_FILL:  # destination, byte, bytes
        bytes = maximum(word(sizes, word(instruction, 3)), 0)
        fill_bytes(word(pointers, word(instruction, 1)), word(instruction, 2), bytes)
    if operation == OP_CHECK:  # buffer, check
        if ui8_at(word(pointers, word(instruction, 1)), 0) == 0:
            record = frame + WORD * FRAME_RECORD
            fill_bytes(record, 0, WORD * STATUS_WORDS)
            set_word(record, STATUS_SET, STATUS_FAILED)
            set_word(record, STATUS_CHECK, word(instruction, 2))
            return -1
    return position + 1


def profile_instruction(profile, position, begin, end, frame):
    totals = profile + WORD * (PROFILE_HEADER + PROFILE_TOTAL_WORDS * position)
    atomic_add(totals, 1)
    atomic_add(totals + WORD, end - begin)
    return profile_event(profile, position, begin, end, frame + WORD * FRAME_AREA, -1)


def look_for_signals(process, frame):
    """Whether a signal's handler raised; called every SIGNAL_INTERVAL while the GIL is released."""
    host = word(process, HOST_ADDRESS)
    call(word(host, HOST_PYEVAL_RESTORETHREAD), word(frame, FRAME_THREAD))
    raised = call_int(word(host, HOST_PYERR_CHECKSIGNALS))
    set_word(frame, FRAME_THREAD, call(word(host, HOST_PYEVAL_SAVETHREAD)))
    return raised


def execute(image, frame):
    """Run all instructions.  Gives STATUS_OK, STATUS_FAILED, STATUS_NO_MEMORY or STATUS_INTERRUPTED."""
    process = word(image, IMAGE_PROCESS)
    instructions = word(image, IMAGE_INSTRUCTIONS)
    count = word(image, IMAGE_COUNT)
    profile = word(image, IMAGE_PROFILE)
    watched = word(frame, FRAME_THREAD) != 0
    looked = 0
    begin = 0
    if watched or profile != 0:
        looked = now(process)
        begin = looked
    position = 0
    while position < count:
        instruction = instructions + WORD * INSTRUCTION_WORDS * position
        following = position + 1
        if word(instruction, 0) == OP_RUN:
            if run_kernel(image, frame, instruction) != 0:
                return word(frame, FRAME_RECORD + STATUS_SET)
        else:
            following = run_scalar(image, frame, instruction, position)
            if following < 0:
                return STATUS_FAILED
        if watched or profile != 0:
            end = now(process)
            if profile != 0:
                profile_instruction(profile, position, begin, end, frame)
            if watched and end - looked > SIGNAL_INTERVAL:
                if look_for_signals(process, frame) != 0:
                    return STATUS_INTERRUPTED
                looked = end
            begin = end
        position = following
    return STATUS_OK
'''
