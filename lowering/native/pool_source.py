"""The thread pool and the memory pool, in the language of kernels (compiled by frontend.py with intrinsics_driver.py).

How the pool works, and why it is right
----------------------------------------
One thread, the *owner*, holds POOL_LOCK and runs one region: `chunks` calls of a kernel.  It fills REGION, sets
POOL_DONE to 0, and publishes the region by storing POOL_TICKET = generation << 32 | chunks left.  Owner and workers
claim a chunk by a compare-and-swap that lowers the low half by one; the number of the chunk is `chunks - left`.  Who
has run a chunk adds one to POOL_DONE; the owner leaves when POOL_DONE is `chunks`, and only then may REGION be
written again.

1. A claim is never stale.  A successful compare-and-swap proves that the ticket word held the value the thread had
   read, so at that instant a region was open with a chunk left, and this thread now owns one of its chunks.  That
   region cannot end before this thread adds to POOL_DONE, so REGION stays as it is from the claim to that addition.
   REGION is read only between the two.  A worker that wakes late, or slept through any number of regions, holds no
   claim: it reads the word anew, finds nothing left, or claims a chunk of whatever region is open now, which is just
   as good.  The generation makes words of different regions differ, so a swap cannot succeed on a word read in an
   earlier region; even if it did (after 2**32 regions) the claim would be one on the open region.
2. What a worker sees.  The owner's plain stores to REGION happen before its store of the ticket; a claim reads that
   store or a later swap of the same word (a release sequence), so the claimer sees REGION, and everything that the
   owner wrote before, as of publication.  Adding to POOL_DONE releases the chunk's results; the owner's load of the
   final count acquires them all.
3. No lost wake-up.  A worker reads POOL_EPOCH, then looks for chunks, then sleeps only while POOL_EPOCH is still what
   it had read.  The owner publishes the ticket, then adds to POOL_EPOCH, then reads POOL_SLEEPERS.  All are
   sequentially consistent.  A worker adds itself to POOL_SLEEPERS before it asks the system to sleep: either the
   owner sees it and wakes it, or its sleep finds that POOL_EPOCH has changed (futex and WaitOnAddress compare inside
   the system, the condition variable under its mutex, which the owner takes to wake).
4. Chunks are cut by extent and grain alone, and what a kernel does depends on its chunk alone, so bits do not depend
   on who ran what.
5. Failures.  Each failing chunk's record is merged under FAILURE_LOCK before the addition to POOL_DONE; the lowest
   chunk wins.  All chunks run in any case, so the lowest failing chunk is the same however they were shared out.

6. Where workers wake.  On a virtual machine Linux takes a processor whose halt has reached the host for one that is
   busy (`vcpu_is_preempted`), and so wakes a worker on the processor of its owner, where the two take turns until the
   load is balanced, milliseconds later.  So the owner first forbids its own processor to the sleeping workers, and a
   worker that wakes may run everywhere again.  Both are hints: the pool is right without them.

A second caller that finds POOL_LOCK taken runs its chunks on its own thread.  Nothing here waits for that lock.
"""

from __future__ import annotations

SOURCE = '''
def run_chunk(process, area, region, chunk):
    """One chunk of a region; a failure goes into the region's record when it is the lowest so far."""
    status = area + WORD * AREA_STATUS
    grain = word(region, REGION_GRAIN - REGION)
    low = chunk * grain
    high = minimum(low + grain, word(region, REGION_EXTENT - REGION))
    scratch = word(region, REGION_SCRATCH - REGION)
    if word(area, CONTEXT_SCRATCH_SIZE) < scratch:
        if grow_scratch(process, area, scratch) != 0:
            return record_failure(process, region, status, STATUS_NO_MEMORY, chunk)
    set_word(area, CONTEXT_OPERANDS, word(region, REGION_OPERANDS - REGION))
    set_word(area, CONTEXT_PARAMETERS, word(region, REGION_PARAMETERS - REGION))
    set_word(area, CONTEXT_ROUTINES, word(process, ROUTINES_ADDRESS))
    set_word(area, CONTEXT_CHUNK, chunk)
    set_word(area, CONTEXT_STATUS, status)
    set_word(status, STATUS_SET, 0)
    profile = word(region, REGION_PROFILE - REGION)
    begin = 0
    if profile != 0:
        begin = now(process)
    if call_kernel(word(region, REGION_KERNEL - REGION), low, high, area) != 0:
        return record_failure(process, region, status, STATUS_FAILED, chunk)
    if profile != 0:
        profile_event(profile, word(region, REGION_INSTRUCTION - REGION), begin, now(process), area, chunk)
    return 0


def now(process):
    """Nanoseconds of a clock that never goes back (ticks on Windows)."""
    time = stack_words(2)
    clock = word(word(process, HOST_ADDRESS), HOST_CLOCK)
    if CLOCK_KIND == CLOCK_POSIX:
        call_int(clock, CLOCK_MONOTONIC, time)
        return word(time, 0) * 1000000000 + word(time, 1)
    call_int(clock, time)
    return word(time, 0)


def profile_event(profile, position, begin, end, area, chunk):
    number = atomic_add(profile + WORD * PROFILE_NEXT, 1)
    if number < word(profile, PROFILE_CAPACITY):
        start = PROFILE_HEADER + PROFILE_TOTAL_WORDS * word(profile, PROFILE_COUNT) + PROFILE_EVENT_WORDS * number
        event = profile + WORD * start
        set_word(event, 0, position)
        set_word(event, 1, begin)
        set_word(event, 2, end)
        set_word(event, 3, area)
        set_word(event, 4, chunk)
    return 0


def grow_scratch(process, area, needed):
    old = word(area, CONTEXT_SCRATCH)
    if old != 0:
        block_free(old)
    new = block_new(process, needed)
    set_word(area, CONTEXT_SCRATCH, new)
    if new == 0:
        set_word(area, CONTEXT_SCRATCH_SIZE, 0)
        return 1
    set_word(area, CONTEXT_SCRATCH_SIZE, needed)
    return 0


def record_failure(process, region, status, kind, chunk):
    lock(process, process + WORD * FAILURE_LOCK)
    failures = word(region, REGION_FAILURES - REGION)
    record = word(region, REGION_RECORD - REGION)
    if failures == 0 or chunk < word(record, STATUS_CHUNK):
        if word(status, STATUS_SET) == 0:
            fill_bytes(status, 0, WORD * STATUS_WORDS)
        copy_bytes(record, status, WORD * STATUS_WORDS)
        set_word(record, STATUS_SET, kind)
        set_word(record, STATUS_CHUNK, chunk)
    set_word(region, REGION_FAILURES - REGION, failures + 1)
    unlock(process + WORD * FAILURE_LOCK)
    return kind


def lock(process, address):
    """A lock that is held for some tens of instructions; where it is taken, spin, then let others run."""
    turns = 0
    while atomic_exchange(address, 1) != 0:
        turns = turns + 1
        if turns < 100:
            pause()
        else:
            call_int(word(word(process, HOST_ADDRESS), HOST_YIELD_THREAD))
    return 0


def unlock(address):
    atomic_store(address, 0)
    return 0


def take_chunks(process, area):
    """Claim and run chunks until none is left."""
    ticket = process + WORD * POOL_TICKET
    region = process + WORD * REGION
    while True:
        seen = atomic_load(ticket)
        left = bit_and(seen, 4294967295)
        if left == 0:
            return 0
        if compare_exchange(ticket, seen, seen - 1):
            run_chunk(process, area, region, word(region, REGION_CHUNKS - REGION) - left)
            atomic_add(process + WORD * POOL_DONE, 1)
    return 0


def sleep(process, epoch):
    """Until POOL_EPOCH is no longer `epoch` (or for no reason at all)."""
    host = word(process, HOST_ADDRESS)
    address = process + WORD * POOL_EPOCH
    atomic_add(process + WORD * POOL_SLEEPERS, 1)
    if WAIT_KIND == WAIT_FUTEX:
        call(word(host, HOST_WAIT), FUTEX, address, 128, epoch, 0, 0, 0)
        if word(process, POOL_PLACED) != 0:
            call_int(word(host, HOST_SET_AFFINITY), 0, WORD * AFFINITY_WORDS, process + WORD * POOL_AFFINITY)
    elif WAIT_KIND == WAIT_CONDITION:
        mutex = process + WORD * MUTEX
        call_int(word(host, HOST_MUTEX_LOCK), mutex)
        if atomic_load(address) == epoch:
            call_int(word(host, HOST_WAIT), process + WORD * CONDITION_VARIABLE, mutex)
        call_int(word(host, HOST_MUTEX_UNLOCK), mutex)
    else:
        expected = stack_words(1)
        set_word(expected, 0, epoch)
        call(word(host, HOST_WAIT), address, expected, 8, 4294967295)
    atomic_add(process + WORD * POOL_SLEEPERS, -1)
    return 0


def place_workers(process):
    """Forbid the caller's processor to the workers (6 above)."""
    host = word(process, HOST_ADDRESS)
    own = call_int(word(host, HOST_CURRENT_PROCESSOR))
    allowed = stack_words(AFFINITY_WORDS)
    copy_bytes(allowed, process + WORD * POOL_AFFINITY, WORD * AFFINITY_WORDS)
    if own < 0 or own >= 64 * AFFINITY_WORDS:
        return 0
    at = shift_right(own, 6)
    set_word(allowed, at, bit_and(word(allowed, at), -1 - shift_left(1, bit_and(own, 63))))
    for number in range(word(process, POOL_WORKERS)):
        call_int(word(host, HOST_SET_AFFINITY), word(process + WORD * POOL_THREADS, number), WORD * AFFINITY_WORDS, allowed)
    return 0


def wake(process):
    """Wake every sleeping worker, after POOL_EPOCH was changed."""
    host = word(process, HOST_ADDRESS)
    address = process + WORD * POOL_EPOCH
    if atomic_load(process + WORD * POOL_SLEEPERS) == 0:
        return 0
    if WAIT_KIND == WAIT_FUTEX:
        if word(process, POOL_PLACED) != 0:
            place_workers(process)
        call(word(host, HOST_WAKE), FUTEX, address, 129, 2147483647, 0, 0, 0)
    elif WAIT_KIND == WAIT_CONDITION:
        mutex = process + WORD * MUTEX
        call_int(word(host, HOST_MUTEX_LOCK), mutex)
        call_int(word(host, HOST_WAKE), process + WORD * CONDITION_VARIABLE)
        call_int(word(host, HOST_MUTEX_UNLOCK), mutex)
    else:
        call(word(host, HOST_WAKE), address)
    return 0


def worker(process, area):
    """The life of a worker: look for chunks, spin a little, sleep; until POOL_STOP."""
    address = process + WORD * POOL_EPOCH
    while True:
        epoch = atomic_load(address)
        if atomic_load(process + WORD * POOL_STOP) != 0:
            return 0
        take_chunks(process, area)
        turns = 0
        while atomic_load(address) == epoch:
            turns = turns + 1
            if turns < SPINS:
                pause()
            else:
                sleep(process, epoch)
    return 0


def stop_workers(process):
    atomic_store(process + WORD * POOL_STOP, 1)
    atomic_add(process + WORD * POOL_EPOCH, 1)
    return wake(process)


def run_region(process, area, region):
    """All chunks of a region whose words are filled: with the workers when there are several chunks and the pool is
    free.
    """
    chunks = word(region, REGION_CHUNKS - REGION)
    set_word(region, REGION_FAILURES - REGION, 0)
    shared = chunks > 1 and chunks < 2147483648 and word(process, POOL_WORKERS) > 0
    if shared:
        shared = atomic_exchange(process + WORD * POOL_LOCK, 1) == 0
    if not shared:
        for chunk in range(chunks):
            run_chunk(process, area, region, chunk)
        return word(region, REGION_FAILURES - REGION)
    run_shared(process, area, region, chunks)
    failures = word(process + WORD * REGION, REGION_FAILURES - REGION)
    unlock(process + WORD * POOL_LOCK)
    return failures


def run_shared(process, area, region, chunks):
    """With POOL_LOCK held."""
    copy_bytes(process + WORD * REGION, region, WORD * REGION_WORDS)
    generation = word(process, POOL_GENERATION) + 1
    set_word(process, POOL_GENERATION, generation)
    done = process + WORD * POOL_DONE
    atomic_store(done, 0)
    atomic_store(process + WORD * POOL_TICKET, bit_or(shift_left(generation, 32), chunks))
    atomic_add(process + WORD * POOL_EPOCH, 1)
    wake(process)
    take_chunks(process, area)
    turns = 0
    while atomic_load(done) != chunks:
        turns = turns + 1
        if turns < SPINS:
            pause()
        else:
            call_int(word(word(process, HOST_ADDRESS), HOST_YIELD_THREAD))
    return 0


def size_class(size):
    """Eight classes an octave: 64 bytes are the smallest block, the largest waste is an eighth."""
    exponent = bit_length(size - 1) - 1
    step = maximum(exponent - 3, 3)
    return (exponent - 5) * 8 + bit_and(shift_right(size - 1, step), 7)


def class_bytes(size):
    exponent = bit_length(size - 1) - 1
    step = shift_left(1, maximum(exponent - 3, 3))
    return index_divide(size + step - 1, step) * step


def block_new(process, bytes):
    """Memory aligned to 64 bytes, from the free list of its class or from malloc; 0 when there is none."""
    size = maximum(bytes, 64)
    number = size_class(size)
    head = process + WORD * (MEMORY_LISTS + number)
    lock(process, process + WORD * MEMORY_LOCK)
    block = word(head, 0)
    if block != 0:
        set_word(head, 0, word(block, HEADER_NEXT))
        set_word(process, MEMORY_IDLE, word(process, MEMORY_IDLE) - word(block, HEADER_SIZE))
        unlock(process + WORD * MEMORY_LOCK)
        return block
    unlock(process + WORD * MEMORY_LOCK)
    size = class_bytes(size)
    raw = call(word(word(process, HOST_ADDRESS), HOST_MALLOC), size + HEADER_BYTES + 64)
    if raw == 0:
        return 0
    block = bit_and(raw + HEADER_BYTES + 63, -64)
    set_word(block, HEADER_PROCESS, process)
    set_word(block, HEADER_CLASS, number)
    set_word(block, HEADER_SIZE, size)
    set_word(block, HEADER_RAW, raw)
    return block


def block_free(block):
    """To its free list; when more than the limit would lie idle, all idle memory goes back to the system first."""
    process = word(block, HEADER_PROCESS)
    size = word(block, HEADER_SIZE)
    head = process + WORD * (MEMORY_LISTS + word(block, HEADER_CLASS))
    lock(process, process + WORD * MEMORY_LOCK)
    if word(process, MEMORY_IDLE) + size > word(process, MEMORY_LIMIT):
        release_idle(process)
    if size > word(process, MEMORY_LIMIT):
        unlock(process + WORD * MEMORY_LOCK)
        call(word(word(process, HOST_ADDRESS), HOST_FREE), word(block, HEADER_RAW))
        return 0
    set_word(block, HEADER_NEXT, word(head, 0))
    set_word(head, 0, block)
    set_word(process, MEMORY_IDLE, word(process, MEMORY_IDLE) + size)
    unlock(process + WORD * MEMORY_LOCK)
    return 0


def release_idle(process):
    """With MEMORY_LOCK held."""
    release = word(word(process, HOST_ADDRESS), HOST_FREE)
    for number in range(MEMORY_CLASSES):
        head = process + WORD * (MEMORY_LISTS + number)
        block = word(head, 0)
        while block != 0:
            following = word(block, HEADER_NEXT)
            call(release, word(block, HEADER_RAW))
            block = following
        set_word(head, 0, 0)
    set_word(process, MEMORY_IDLE, 0)
    return 0


def try_pool_lock(process):
    """0 when the lock was free and is now the caller's."""
    return atomic_exchange(process + WORD * POOL_LOCK, 1)


def free_idle_memory(process):
    lock(process, process + WORD * MEMORY_LOCK)
    release_idle(process)
    unlock(process + WORD * MEMORY_LOCK)
    return 0
'''
