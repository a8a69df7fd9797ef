"""tcgen05: multiplies and copies that run beside the threads, in tensor memory; loads and stores of it; their order.

Written from PTX ISA 9.1, section 9.7.16. Multiplies and copies of one thread take effect in order, at the latest when a
commit's mbarrier is waited for. PTX lists tcgen05.cp before tcgen05.mma as pipelined, but no multiply before a copy: one
that overwrites what a multiply in flight still reads is noted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tcprobe.emulate import tensor_products
from tcprobe.emulate.asynchronous import Flight
from tcprobe.emulate.barriers import MBarrier
from tcprobe.emulate.clocks import CLOCK, ENTITY_BITS
from tcprobe.emulate.instructions.barriers import found_at, offsets_of
from tcprobe.emulate.instructions.memory import address_of, space_of
from tcprobe.emulate.machine import WARP, Machine, Outcome, Part, Step, Wait, Where, as_slice
from tcprobe.emulate.matrix_words import InstructionWord, SharedWord, WrongWordError
from tcprobe.emulate.ptx import Address, Immediate, Operand, Register, Statement, Vector
from tcprobe.emulate.tensor_layout import CELL, COLUMNS, accumulator, copied, registers
from tcprobe.emulate.tensor_memory import LEAST, Pipe, TensorMemory, Work, tensor_memory
from tcprobe.emulate.unwritten import registers_of
from tcprobe.layout.arrays import Floats, Ints

PIECE = 16  # bytes that the swizzle keeps together
K_BYTES = 32  # of a line that a multiply takes
SCALES_BLOCK = {"block32": 32, "block16": 16, "scale_vec::1X": 32, "scale_vec::2X": 32, "scale_vec::4X": 16}
POISON = 0x7FC0DEAD  # what registers hold that a load in flight will write
MASK = (1 << 16) - 1


def _tcgen05(statement: Statement, machine: Machine) -> Step | None:
    compile_ = INSTRUCTIONS.get(statement.modifiers[0])
    return None if compile_ is None else compile_(statement, machine)


def _known(statement: Statement, *words: str) -> None:
    for word in statement.modifiers[1:]:
        if word not in words and not word.startswith(("cta_group::", "kind::", "collector::")):
            raise statement.refused(f"with .{word}")


def _blocks(statement: Statement, machine: Machine, thread: int) -> list[int]:
    """Those of a thread's CTA group."""
    block = int(machine.block_of[thread])
    if "cta_group::1" in statement.modifiers:
        return [block]
    if "cta_group::2" not in statement.modifiers:
        raise statement.refused("without .cta_group")
    if machine.shape.ranks % 2:
        machine.find("bounds", thread, "a group of two CTAs needs a cluster of an even number of blocks")
        return [block]
    return [block - block % 2, block - block % 2 + 1]


# columns


def _alloc(statement: Statement, machine: Machine) -> Step:
    _known(statement, "sync", "aligned", "shared::cta", "b32")
    space = space_of(statement)
    address = address_of(machine, statement.operands[0], space)
    count, pc = machine.reader(statement.operands[1], np.uint32), machine.pc
    memory = tensor_memory(machine)

    def run(where: Where) -> Outcome | None:
        threads = machine.threads[where]
        counts = np.broadcast_to(count(where), threads.shape)
        at = np.broadcast_to(np.asarray(address(where)), threads.shape)
        waiting = np.zeros(threads.size, np.bool_)
        for first in range(0, threads.size, WARP):
            thread, wanted = int(threads[first]), int(counts[first])
            block = int(machine.block_of[thread])
            if wanted & wanted - 1 or not LEAST <= wanted <= COLUMNS:
                machine.find("bounds", thread, f"{wanted} columns: a power of two from {LEAST} to {COLUMNS} is needed")
                continue
            if block in memory.relinquished:
                machine.find("deadlock", thread, "columns are allocated after the permit was given back")
            column = memory.allocate(block, wanted, statement, thread)
            if column is None:
                waiting[first : first + WARP] = True
                continue
            word = np.array([[column]], np.uint32).view(np.uint8)
            machine.store(space, at[first : first + 1], word, slice(thread, thread + 1))
        if not waiting.any():
            return None

        def ready() -> bool:
            return any(_fits(memory, int(machine.block_of[t]), int(counts[0])) for t in threads[waiting])

        wait = Wait(ready, lambda: f"{int(counts[0])} columns of tensor memory, which others hold")
        parts = [Part(pc, machine.subset(where, waiting), wait)]
        if not waiting.all():
            parts.append(Part(pc + 1, machine.subset(where, ~waiting)))
        return Outcome(tuple(parts), pc + 1)

    return machine.together(run)


def _fits(memory: TensorMemory, block: int, columns: int) -> bool:
    taken = np.zeros(COLUMNS, np.bool_)
    for (other, first), (count, *_) in memory.allocated.items():
        if other == block:
            taken[first : first + count] = True
    return any(not taken[first : first + columns].any() for first in range(0, COLUMNS, columns))


def _dealloc(statement: Statement, machine: Machine) -> Step:
    _known(statement, "sync", "aligned", "b32")
    address, count = (machine.reader(operand, np.uint32) for operand in statement.operands)
    memory = tensor_memory(machine)

    def run(where: Where) -> None:
        threads = machine.threads[where]
        starts, counts = (np.broadcast_to(read(where), threads.shape) for read in (address, count))
        for first in range(0, threads.size, WARP):
            thread, block = int(threads[first]), int(machine.block_of[threads[first]])
            column, wanted = int(starts[first]) & MASK, int(counts[first])
            held = memory.allocated.get((block, column))
            if held is None or held[0] != wanted or int(starts[first]) >> 16:
                machine.find("bounds", thread, f"{wanted} columns from {column} on are no allocation of tensor memory")
                continue
            lane, inside = np.indices((128, wanted)).reshape(2, -1)
            offsets = memory.offsets(block, lane, column + inside)
            written = offsets[memory.space.writers(offsets, CELL)[:, 0] != 0]
            if written.size:
                memory.check(written, np.full(written.size, thread), writes=True, what="gives back")
            memory.free(block, column)

    return machine.together(run)


def _relinquish(statement: Statement, machine: Machine) -> Step:
    _known(statement, "sync", "aligned")
    memory = tensor_memory(machine)

    def run(where: Where) -> None:
        memory.relinquished.update(machine.block_of[machine.threads[where]].tolist())

    return machine.together(run)


# order


def _fence_before(statement: Statement, machine: Machine) -> Step:
    memory = tensor_memory(machine)
    return memory.fence_before


def _fence_after(statement: Statement, machine: Machine) -> Step:
    memory = tensor_memory(machine)
    return memory.fence_after


def _wait(statement: Statement, machine: Machine) -> Step:
    memory, kind = tensor_memory(machine), statement.modifiers[0].removeprefix("wait::")
    return machine.together(lambda where: memory.wait(where, kind))


def _commit(statement: Statement, machine: Machine) -> Step:
    _known(statement, "mbarrier::arrive::one", "shared::cluster", "multicast::cluster", "b64")
    space = space_of(statement)
    address = address_of(machine, statement.operands[0], space)
    mask = machine.reader(statement.operands[1], np.uint16) if "multicast::cluster" in statement.modifiers else None
    memory = tensor_memory(machine)

    def run(where: Where) -> None:
        threads = machine.threads[where]
        at = np.broadcast_to(np.asarray(address(where)), threads.shape)
        masks = np.broadcast_to(mask(where), threads.shape) if mask else None
        for number, thread in enumerate(threads):
            own = threads[number : number + 1]
            (offset,) = offsets_of(machine, space, at[number : number + 1], own)
            places = [int(offset)]
            if masks is not None:
                first = int(machine.block_of[thread]) // machine.shape.ranks * machine.shape.ranks
                inside = int(offset) % machine.shared_bytes
                ranks = [rank for rank in range(16) if int(masks[number]) >> rank & 1]
                if any(rank >= machine.shape.ranks for rank in ranks):
                    machine.find("bounds", int(thread), "the mask names blocks that the cluster lacks")
                places = [(first + rank) * machine.shared_bytes + inside for rank in ranks if rank < machine.shape.ranks]
            found = [barrier for place in places if (barrier := found_at(machine, place, int(thread))) is not None]
            _issue_commit(machine, memory, statement, int(thread), found)

    return run


def _issue_commit(
    machine: Machine, memory: TensorMemory, statement: Statement, thread: int, barriers: list[MBarrier]
) -> None:
    pipe, flights = memory.pipe(thread), machine.kept["flights"]
    works, known = list(pipe.works), memory.known(pipe, thread)

    def arrive() -> None:
        flights.complete(work)
        for barrier in barriers:
            batch = Flight(statement, lambda: None, landed=True, key=barrier.phase, parts=list(works))
            flights.open.append(batch)
            barrier.flights.append(batch)
            if barrier.pending < 1:
                machine.find("deadlock", thread, "it arrives at an mbarrier that awaits nobody", statement)
            else:
                barrier.arrive(1, known)

    work = Work(statement, lambda: None, self_landing=True, act=arrive)
    work.thread = thread
    memory.issue(pipe, work)


# loads and stores


class Moved(NamedTuple):
    """A load or store of each warp: lanes and columns of (threads, registers), by its address."""

    lane: Ints
    column: Ints
    halves: bool  # two columns' low halves in a register


def _moved(statement: Statement, operands: tuple[Operand, ...]) -> Moved:
    words = statement.modifiers
    shape = next((w for w in words if w in ("32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2")), None)
    number = next((w for w in words if w[0] == "x" and w[1:].isdigit()), None)
    if shape is None or number is None:
        raise statement.refused()
    halves = "pack::16b" in words or "unpack::16b" in words
    _known(statement, "sync", "aligned", shape, number, "pack::16b", "unpack::16b", "b32")
    count, split = int(number[1:]), 0
    if shape == "16x32bx2":
        if not operands or not isinstance(operands[0], Immediate):
            raise statement.refused("without where its second half is")
        split = operands[0].value
    if halves:
        if shape != "32x32b":
            raise statement.refused("of 16 bits in another shape than 32x32b")
        lane, column = registers(shape, 2 * count)
        return Moved(lane, column, True)
    return Moved(*registers(shape, count, split), False)


def _warps(machine: Machine, where: Where, addresses: Any, moved: Moved, does: str) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Of each warp its threads, (threads, registers) offsets of cells, and which of them are allocated."""
    memory, threads = tensor_memory(machine), machine.threads[where].reshape(-1, WARP)
    at = np.broadcast_to(np.asarray(addresses), threads.size).reshape(-1, WARP).astype(np.int64)
    for own, places in zip(threads, at, strict=True):
        thread, address = int(own[0]), int(places[0])
        if (places != address).any():
            machine.find("misaligned", thread, "threads of a warp have different addresses in tensor memory")
        first, column = address >> 16, address & MASK
        quarter = int(own[0]) % machine.threads_of_block // WARP % 4 * WARP
        if not quarter <= first + int(moved.lane.min()) or first + int(moved.lane.max()) >= quarter + WARP:
            machine.find("bounds", thread, f"lanes from {first} on are not this warp's, which may access 32 from {quarter} on")
        block = int(machine.block_of[thread])
        offsets = memory.offsets(block, first + moved.lane, column + moved.column)
        yield own, offsets, memory.there(offsets.reshape(-1), thread, f"what it {does}").reshape(offsets.shape)


def _load(statement: Statement, machine: Machine) -> Step:
    target, source, *more = statement.operands
    moved = _moved(statement, tuple(more))
    writers = [machine.writer(item, np.uint32) for item in machine.items(target)]
    count = moved.lane.shape[1] // (2 if moved.halves else 1)
    if len(writers) != count:
        raise statement.refused(f"with {len(writers)} registers for {count}")
    address = _tensor_address(machine, source)
    memory, names = tensor_memory(machine), list(registers_of(target))
    for name in names:
        memory.awaited.setdefault(name, np.zeros(machine.count, np.int64))

    def run(where: Where) -> None:
        for own, offsets, there in _warps(machine, where, address(where), moved, "reads"):
            flat, safe = offsets.reshape(-1), np.where(there, offsets, 0).reshape(-1)
            chosen = there.reshape(-1)
            threads = np.repeat(own, offsets.shape[1])
            memory.check(flat[chosen], threads[chosen], writes=False, what="reads")
            tags = machine.clocks.tags(threads)
            slots = threads // WARP
            memory.space.add_readers(slots[chosen], flat[chosen], CELL, tags[chosen])
            memory.loaded = True
            mine = as_slice(own)
            for write in writers:
                write(mine, np.uint32(POISON))
            for name in names:
                memory.awaited[name][mine] += 1

            def effect(safe: Ints = safe, own: Ints = own, mine: Where = mine) -> None:
                words = memory.read(safe, int(own[0]), "it reads tensor memory", statement).reshape(WARP, -1)
                if moved.halves:
                    words = words[:, 0::2] & MASK | words[:, 1::2] << 16
                for number, write in enumerate(writers):
                    write(mine, words[:, number])

            _fly(machine, memory, Flight(statement, effect, reads=[(memory.space, _bytes(flat[chosen]))], key=names), int(own[0]))

    return machine.together(run)


def _store(statement: Statement, machine: Machine) -> Step:
    target, *middle, source = statement.operands
    moved = _moved(statement, tuple(middle))
    readers = [machine.reader(item, np.uint32) for item in machine.items(source)]
    count = moved.lane.shape[1] // (2 if moved.halves else 1)
    if len(readers) != count:
        raise statement.refused(f"with {len(readers)} registers for {count}")
    address = _tensor_address(machine, target)
    memory = tensor_memory(machine)

    def run(where: Where) -> None:
        for own, offsets, there in _warps(machine, where, address(where), moved, "writes"):
            mine = as_slice(own)
            words = np.empty((WARP, count), np.uint32)
            for number, read in enumerate(readers):
                words[:, number] = read(mine)
            if moved.halves:
                words = np.stack([words & MASK, words >> 16], axis=-1).reshape(WARP, -1)
            chosen = there.reshape(-1)
            flat, threads = offsets.reshape(-1)[chosen], np.repeat(own, offsets.shape[1])[chosen]
            memory.check(flat, threads, writes=True, what="writes")
            memory.space.set_writers(flat, CELL, machine.clocks.tags(threads))
            data = words.reshape(-1)[chosen]

            def effect(flat: Ints = flat, data: Ints = data) -> None:
                memory.write(flat, data)

            _fly(machine, memory, Flight(statement, effect, writes=[(memory.space, _bytes(flat))]), int(own[0]))

    return machine.together(run)


def _fly(machine: Machine, memory: TensorMemory, flight: Flight, thread: int) -> None:
    machine.kept["flights"].issue(flight)
    memory.loads.append((flight, thread // WARP))


def _tensor_address(machine: Machine, operand: Operand) -> Callable[[Where], Any]:
    """An address in tensor memory: the lane above, the column in the low 16 bits."""
    if not isinstance(operand, Address):
        raise machine.refuse("without an address in tensor memory")
    if operand.base is None:
        return lambda where: np.int64(operand.offset)
    assert isinstance(operand.base, Register)
    read, added = machine.reader(operand.base, np.uint32), operand.offset
    return lambda where: np.asarray(read(where)).astype(np.int64) + added


def _bytes(offsets: Ints, size: int = CELL) -> Ints:
    """Every byte of pieces of memory."""
    return (offsets[:, None] + np.arange(size)).reshape(-1)


# copies


def _copy(statement: Statement, machine: Machine) -> Step:
    words = statement.modifiers
    shape = next((w for w in words if w in ("128x256b", "4x256b", "128x128b", "64x128b", "32x128b")), None)
    multicast = next((w for w in words if w.startswith("warpx")), "")
    if shape is None:
        raise statement.refused()
    _known(statement, shape, multicast)
    try:
        row, word, lane = copied(shape, multicast)
    except KeyError as error:
        raise statement.refused() from error
    address, descriptor = _tensor_address(machine, statement.operands[0]), machine.reader(statement.operands[1], np.uint64)
    memory = tensor_memory(machine)
    rows, pieces = int(row.max()) + 1, (int(word.max()) + 1) // 4
    lines, places = np.indices((rows, pieces)).reshape(2, -1)

    def run(where: Where) -> None:
        threads = machine.threads[where]
        at = np.broadcast_to(np.asarray(address(where)), threads.shape)
        bits = np.broadcast_to(descriptor(where), threads.shape)
        for number, thread in enumerate(threads):
            one(int(thread), int(at[number]), int(bits[number]))

    def one(thread: int, at: int, bits: int) -> None:
        shared = _word(machine, thread, bits)
        if shared is None:
            return
        pipe = memory.pipe(thread)
        for block in _blocks(statement, machine, thread):
            source = _shared(machine, thread, block, shared.addresses(True, lines, PIECE * places), "what it copies")
            cells = memory.offsets(block, (at >> 16) + lane, (at & MASK) + word)
            if source is None or not memory.there(cells, thread, "what it writes").all():
                continue
            _check_pipe(machine, memory, pipe, cells, thread, "writes")
            tag = _stamp(machine, memory, pipe, thread)

            def act(source: Ints = source, cells: Ints = cells) -> None:
                data = machine.shared.gather(source, PIECE).view(np.uint32).reshape(rows, -1)
                memory.write(cells, data[row, word])

            memory.space.set_writers(cells, CELL, np.full(cells.size, tag))
            _reads_shared(machine, source, thread, tag)
            reads, writes = [(machine.shared, _bytes(source, PIECE))], [(memory.space, _bytes(cells))]
            memory.issue(pipe, Work(statement, lambda: None, reads, writes, act=act))

    return run


def _word(machine: Machine, thread: int, bits: int) -> SharedWord | None:
    try:
        return SharedWord.read(bits)
    except WrongWordError as error:
        machine.find("bounds", thread, str(error))
        return None


def _shared(machine: Machine, thread: int, block: int, addresses: Ints, what: str) -> Ints | None:
    """Offsets of pieces of 16 bytes in a block's shared memory, checked as reads of the async proxy."""
    flat = addresses.reshape(-1) & (1 << 18) - 1
    inside = flat < machine.shared_bytes
    offsets = np.where(inside, block * machine.shared_bytes + flat, 0)
    states = machine.shared.states(offsets, PIECE)
    if not inside.all() or (states == 0).any():
        machine.find("bounds", thread, f"{what} is outside the shared memory of the block")
        return None
    if (states == 1).any():
        machine.find("uninitialised", thread, f"{what} was written by nobody")
    unique = np.unique(offsets)
    machine.check_read(machine.shared, unique, PIECE, np.full(unique.size, thread), fenced=True)
    return offsets


def _reads_shared(machine: Machine, offsets: Ints, thread: int, tag: int) -> None:
    """The pipe is a reader of pieces of shared memory."""
    unique = np.unique(offsets)
    machine.shared.add_readers(np.full(unique.size, thread // WARP), unique, PIECE, np.full(unique.size, tag))


def _check_pipe(machine: Machine, memory: TensorMemory, pipe: Pipe, cells: Ints, thread: int, does: str) -> None:
    """What a pipe does to cells: in order with its own work, of which a copy after a multiply is noted."""
    memory.check(cells, np.full(cells.size, thread), writes=does == "writes", engine=pipe.engine, what=does)
    if does == "writes" and memory.space.flights and memory.space.in_flight(cells, CELL, writing=True).any():
        reads = [at for work in pipe.works if not work.done and work.statement.modifiers[0] == "mma" for _, at in work.reads[1:]]
        if any(np.isin(cells, at).any() for at in reads):
            machine.report.note(
                f"line {machine.statements[machine.pc].line}: a copy overwrites what a multiply in flight reads; PTX does "
                "not list the two as pipelined; they are taken in order"
            )


def _stamp(machine: Machine, memory: TensorMemory, pipe: Pipe, thread: int) -> int:
    """The tag of a pipe's next work."""
    tag = machine.clocks.engine_tag(pipe.engine, int(machine.clocks.serial[thread]))
    pipe.clock = tag >> ENTITY_BITS & CLOCK
    return tag


# multiplies


class Multiply(NamedTuple):
    """What a multiply's name and operands say."""

    statement: Statement
    kind: str
    pair: bool
    weight_stationary: bool
    block: int  # elements of k that share a scale


def _multiply(statement: Statement, machine: Machine) -> Step:
    words = statement.modifiers
    kind = next((w.removeprefix("kind::") for w in words if w.startswith("kind::")), "")
    if kind not in ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4"):
        raise statement.refused()
    _known(statement, "ws", "block_scale", *SCALES_BLOCK, *(w for w in words if w in ("a", "b", "fill", "use", "lastuse", "discard") or w.startswith(("b0", "b1", "b2", "b3"))))
    scaled = "block_scale" in words
    if scaled != kind.startswith("mx"):
        raise statement.refused()
    size = next((SCALES_BLOCK[w] for w in words if w in SCALES_BLOCK), 32)
    form = Multiply(statement, kind, "cta_group::2" in words, "ws" in words, size if scaled else 0)
    d, a, b, word, *more = statement.operands
    scales = [_tensor_address(machine, operand) for operand in more[:2]] if scaled else []
    more = more[2:] if scaled else more
    if more and isinstance(more[0], Vector):
        raise statement.refused("with lanes that are not written")
    enable = machine.reader(more[0], np.bool_) if more else None
    if len(more) > 1:
        raise statement.refused("with a scale of D or columns that are zero")
    to = _tensor_address(machine, d)
    first: Any = _tensor_address(machine, a) if isinstance(a, Address) else machine.reader(a, np.uint64)
    second, instruction = machine.reader(b, np.uint64), machine.reader(word, np.uint32)
    remote = isinstance(a, Address)

    def run(where: Where) -> None:
        threads = machine.threads[where]

        def each(value: Any) -> Any:
            return np.broadcast_to(np.asarray(value), threads.shape)

        values = [each(read(where)) for read in (to, first, second, instruction, *scales)]
        adds = each(enable(where) if enable else True)
        for number, thread in enumerate(threads):
            at, a_, b_, bits, *of_scales = (int(value[number]) for value in values)
            _issue_multiply(machine, form, int(thread), (at, a_, b_, bits, of_scales), bool(adds[number]), remote)

    return run


def _issue_multiply(
    machine: Machine, form: Multiply, thread: int, operands: tuple[int, int, int, int, list[int]], adds: bool, remote: bool
) -> None:
    """Check where it reads and writes, and let it take off."""
    memory, (at, a_bits, b_bits, bits, scales) = tensor_memory(machine), operands
    blocks = _blocks(form.statement, machine, thread)
    try:
        word = InstructionWord.read(form.kind, bits)
        b_word = SharedWord.read(b_bits)
        a_word = None if remote else SharedWord.read(a_bits)
    except WrongWordError as error:
        machine.find("bounds", thread, str(error))
        return
    if not _fits_form(word, form):
        machine.find("bounds", thread, f"there is no multiply of M {word.m}, N {word.n} of kind {form.kind}")
        return
    pipe, parts = memory.pipe(thread), len(blocks)
    cells = _result_cells(memory, blocks, word, form, at)
    flat = cells.reshape(-1)
    if not memory.there(flat, thread, "D").all():
        return
    _check_pipe(machine, memory, pipe, flat, thread, "writes")
    a_from = _factor_cells(memory, blocks, word, a_bits) if remote else None
    reads: list[Any] = []
    a_places, b_places = [], []
    for block in blocks:
        if a_word is not None:
            a_places.append(_shared(machine, thread, block, _pieces(a_word, word.k_major_a, word.m // parts, word.k, word.a), "A"))
        b_places.append(_shared(machine, thread, block, _pieces(b_word, word.k_major_b, word.n // parts, word.k, word.b), "B"))
    if any(places is None for places in (*a_places, *b_places)):
        return
    reads.append((machine.shared, _bytes(np.unique(np.concatenate([*a_places, *b_places])), PIECE)))
    read_cells = [] if a_from is None else [a_from]
    of_scales = [_scale_cells(memory, blocks, word, form, which, address) for which, address in enumerate(scales)]
    read_cells += of_scales
    for other in read_cells:
        one = np.unique(other.reshape(-1))
        if not memory.there(one, thread, "A" if other is a_from else "a scale").all():
            return
        _check_pipe(machine, memory, pipe, one, thread, "reads")
        reads.append((memory.space, _bytes(one)))
    tag = _stamp(machine, memory, pipe, thread)
    memory.space.set_writers(flat, CELL, np.full(flat.size, tag))
    _reads_shared(machine, np.concatenate([*a_places, *b_places]), thread, tag)

    def act() -> None:
        a = _bits_of_cells(memory, a_from, word, form, thread) if a_from is not None else _gather(machine, a_places, word.k_major_a, word.m // parts, word.k, word.a)
        b = _gather(machine, b_places, word.k_major_b, word.n // parts, word.k, word.b)
        c = memory.read(flat, thread, "it adds to tensor memory", form.statement).reshape(cells.shape) if adds else np.zeros(cells.shape, np.uint32)
        factors = [_scales(memory, places, word, form, which, thread) for which, places in enumerate(of_scales)]
        memory.write(flat, _product(machine, form, word, (a, b, c), factors).reshape(-1))

    memory.issue(pipe, Work(form.statement, lambda: None, reads, [(memory.space, _bytes(flat))], act=act))


def _fits_form(word: InstructionWord, form: Multiply) -> bool:
    """Whether PTX has a multiply of that M and N (tables of section 9.7.16.2.1)."""
    if form.weight_stationary:
        return word.m in (32, 64, 128) and word.n in (64, 128, 256)
    step = 16 if form.pair or word.m == 128 else 8
    sizes = (128, 256) if form.pair else (128,) if form.block else (64, 128)
    return word.m in sizes and 0 < word.n <= 256 and word.n % step == 0


def _result_cells(memory: TensorMemory, blocks: list[int], word: InstructionWord, form: Multiply, at: int) -> Ints:
    """(m, n) offsets of D."""
    places = _accumulator(word.m, word.n, form.pair, form.weight_stationary)
    own = np.array(blocks)[places.cta]
    return memory.offsets(own, (at >> 16) + places.lane, (at & MASK) + places.column)


@lru_cache(maxsize=64)
def _accumulator(m: int, n: int, pair: bool, weight_stationary: bool) -> Any:
    return accumulator(m, n, pair, weight_stationary)


def _factor_cells(memory: TensorMemory, blocks: list[int], word: InstructionWord, at: int) -> Ints:
    """(m, words) offsets of A in tensor memory: elements of a row behind each other, from a column on."""
    per = 1 if word.a == "tf32" else 2 if word.a in ("f16", "bf16") else 8 if word.kind in ("mxf4", "mxf4nvf4") else 4
    row, column = np.indices((word.m, word.k // per))
    own, lane = row // (word.m // len(blocks)), row % (word.m // len(blocks))
    if len(blocks) == 1 and word.m == 64:
        lane = lane // 16 * 32 + lane % 16
    return memory.offsets(np.array(blocks)[own], (at >> 16) + lane, (at & MASK) + column)


def _bits_of_cells(memory: TensorMemory, cells: Ints, word: InstructionWord, form: Multiply, thread: int) -> Any:
    flat = cells.reshape(-1)
    words = memory.read(flat, thread, "A is in tensor memory", form.statement).reshape(cells.shape)
    return _unpacked(np.ascontiguousarray(words).view(np.uint8), word.a, word.kind in ("mxf4", "mxf4nvf4"))


def _scale_cells(memory: TensorMemory, blocks: list[int], word: InstructionWord, form: Multiply, which: int, at: int) -> Ints:
    """(4, lines, ctas) offsets of the words with scales: each warp's lanes hold all of them, 32 lines a column."""
    lines = word.m // len(blocks) if which == 0 else word.n
    warp, line, cta = np.indices((4, lines, len(blocks)))
    return memory.offsets(np.array(blocks)[cta], 32 * warp + line % 32, (at & MASK) + line // 32)


def _scales(memory: TensorMemory, cells: Ints, word: InstructionWord, form: Multiply, which: int, thread: int) -> Floats:
    """(m, n, blocks of k) what each element of D's warp reads: a scale of A's row, or of B's column."""
    flat = cells.reshape(-1)
    words = memory.read(flat, thread, "scales are in tensor memory", form.statement).reshape(cells.shape)
    count, first = word.k // form.block, word.id_a if which == 0 else word.id_b
    patterns = words[..., None] >> (8 * (first + np.arange(count, dtype=np.uint32))) & 255
    values = tensor_products.numbers(word.scale, patterns)
    places = _accumulator(word.m, word.n, form.pair, form.weight_stationary)
    row, col = np.indices((word.m, word.n))
    rows = word.m // cells.shape[2]
    if which == 0:
        return np.asarray(values[places.lane[:, 0] // WARP, row[:, 0] % rows, places.cta[:, 0]])
    every = [values[warp, :, cta] for cta in range(cells.shape[2]) for warp in range(4)]
    return np.stack(every)  # (ctas x warps, n, blocks)


def _pieces(word: SharedWord, k_major: bool, lines: int, k: int, kind: str) -> Ints:
    """Addresses of the pieces of 16 bytes of a matrix: (lines, pieces along k), or (k, pieces along lines)."""
    if k_major:
        line, piece = np.indices((lines, K_BYTES // PIECE))
        return word.addresses(True, line, PIECE * piece)
    size = tensor_products.WIDTHS.get(kind, 8) // 8
    if size < 1:
        raise WrongWordError(f"{kind} is multiplied k-major only")
    row, piece = np.indices((k, lines * size // PIECE))
    return word.addresses(False, row, PIECE * piece)


def _gather(machine: Machine, places: list[Any], k_major: bool, lines: int, k: int, kind: str) -> Any:
    """(lines, k) patterns of bits, of all blocks one below the other."""
    made = []
    for offsets in places:
        raw = machine.shared.gather(offsets, PIECE)
        if k_major:
            made.append(_unpacked(raw.reshape(lines, K_BYTES), kind, k == 64))
        else:
            made.append(_unpacked(raw.reshape(k, -1), kind, False).T)
    return np.concatenate(made)


def _unpacked(raw: Any, kind: str, packed: bool) -> Any:
    """Patterns of the elements in rows of bytes; narrow ones stand 16 to 16 bytes unless `packed`."""
    raw = np.ascontiguousarray(raw)
    width = tensor_products.WIDTHS.get(kind, 8)
    if width >= 8:
        return raw.view({8: np.uint8, 16: np.uint16, 32: np.uint32}[width])
    if packed:
        return np.stack([raw & 15, raw >> 4], axis=-1).reshape(raw.shape[0], -1)
    bits = np.unpackbits(raw.reshape(raw.shape[0], -1, PIECE), axis=-1, bitorder="little")[..., : 16 * width]
    powers = 1 << np.arange(width, dtype=np.uint8)
    return (bits.reshape(raw.shape[0], -1, width) * powers).sum(axis=-1).astype(np.uint8)


def _product(machine: Machine, form: Multiply, word: InstructionWord, abc: tuple[Any, Any, Any], scales: list[Floats]) -> Any:
    """D's words."""
    a_bits, b_bits, c_bits = abc
    a, b = tensor_products.numbers(word.a, a_bits), tensor_products.numbers(word.b, b_bits).T
    a, b = -a if word.negate_a else a, -b if word.negate_b else b
    if form.kind == "i8":
        whole = (a.astype(np.int64) @ b.astype(np.int64)) + c_bits.view(np.int32)
        whole = np.clip(whole, -(1 << 31), (1 << 31) - 1) if word.saturate else whole
        return (whole & 0xFFFFFFFF).astype(np.uint32)
    c = c_bits.astype(np.uint16).view(np.float16).astype(np.float64) if word.d == "f16" else c_bits.view(np.float32).astype(np.float64)
    if scales:
        made, exact = _scaled(form, word, (a, b, c), scales)
    else:
        made, exact = tensor_products.multiply(a, b, c)
    if word.d == "f16":
        machine.report.note("D of f16 is rounded once for each multiply, to the nearest: no source says how")
        return made.astype(np.float16).view(np.uint16).astype(np.uint32)
    if exact:
        return made.astype(np.float32).view(np.uint32)
    machine.report.note("sums of tcgen05.mma that are not exact have bits that sources state of a B200; none were measured")
    if scales or word.negate_a or word.negate_b:
        return made.astype(np.float32).view(np.uint32)
    return tensor_products.multiply_documented((word.a, word.b, "f32"), a_bits, b_bits.T, c_bits)


def _scaled(form: Multiply, word: InstructionWord, abc: tuple[Floats, Floats, Floats], scales: list[Floats]) -> tuple[Floats, bool]:
    """The product with the scales of each warp's own lanes."""
    a, b, c = abc
    of_a, of_b = scales
    wide = np.repeat(of_a, form.block, axis=1) * a
    places = _accumulator(word.m, word.n, form.pair, form.weight_stationary)
    group = places.cta[:, 0] * 4 + places.lane[:, 0] // WARP
    made, exact = np.empty_like(c), True
    for number in np.unique(group):
        rows = group == number
        factor = np.repeat(of_b[number], form.block, axis=1).T * b
        made[rows], right = tensor_products.multiply(wide[rows], factor, c[rows])
        exact &= right
    return made, exact


def _shift(statement: Statement, machine: Machine) -> Step:
    raise statement.refused("no source says which way rows go")


INSTRUCTIONS: Mapping[str, Callable[[Statement, Machine], Step]] = {
    "alloc": _alloc,
    "dealloc": _dealloc,
    "relinquish_alloc_permit": _relinquish,
    "fence::before_thread_sync": _fence_before,
    "fence::after_thread_sync": _fence_after,
    "wait::ld": _wait,
    "wait::st": _wait,
    "commit": _commit,
    "ld": _load,
    "st": _store,
    "cp": _copy,
    "mma": _multiply,
    "shift": _shift,
}
OPCODES: Mapping[str, Callable[[Statement, Machine], Step | None]] = {"tcgen05": _tcgen05}
