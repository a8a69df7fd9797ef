"""tcgen05: multiplies and copies that run beside the threads, in tensor memory; loads and stores of it; their order.

Written from PTX ISA 9.1, section 9.7.16. Multiplies and copies of one thread take effect in order, at the latest when a
commit's mbarrier is waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from tcprobe.emulate.asynchronous import Flight
from tcprobe.emulate.barriers import MBarrier
from tcprobe.emulate.instructions.barriers import found_at, offsets_of
from tcprobe.emulate.instructions.memory import address_of, space_of
from tcprobe.emulate.machine import WARP, Machine, Outcome, Part, Step, Wait, Where, as_slice
from tcprobe.emulate.matrix_words import SCALES, TYPES, SharedWord, WrongWordError
from tcprobe.emulate.ptx import Address, Immediate, Operand, Register, Statement, Vector
from tcprobe.emulate.tensor_layout import CELL, COLUMNS, copied, registers
from tcprobe.emulate.tensor_memory import (
    LEAST,
    MASK,
    PIECE,
    Issuer,
    TensorMemory,
    Words,
    Work,
    every_byte,
    tensor_memory,
)
from tcprobe.emulate.tensor_multiply import Form, Operands, issue
from tcprobe.emulate.unwritten import registers_of
from tcprobe.layout.arrays import Bools, Ints

SCALES_BLOCK = {"block32": 32, "block16": 16, "scale_vec::1X": 32, "scale_vec::2X": 32, "scale_vec::4X": 16}
POISON = 0x7FC0DEAD  # what registers hold that a load in flight will write
BUFFERS = ("b0", "b1", "b2", "b3")  # of .ws, for B


def _tcgen05(statement: Statement, machine: Machine) -> Step | None:
    compile_ = INSTRUCTIONS.get(statement.modifiers[0])
    return None if compile_ is None else compile_(statement, machine)


def _known(statement: Statement, *words: str) -> None:
    for word in statement.modifiers[1:]:
        if word not in words and not word.startswith(("cta_group::", "kind::", "collector::")):
            raise statement.refused(f"with .{word}")


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
                places = [
                    (first + rank) * machine.shared_bytes + inside for rank in ranks if rank < machine.shape.ranks
                ]
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


def _warps(
    machine: Machine, where: Where, addresses: Any, moved: Moved, does: str
) -> Iterator[tuple[Ints, Ints, Bools]]:
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
            machine.find(
                "bounds", thread, f"lanes from {first} on are not this warp's, which may access 32 from {quarter} on"
            )
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
                    words = (words[:, 0::2] & MASK | words[:, 1::2] << 16).astype(np.uint32)
                for number, write in enumerate(writers):
                    write(mine, words[:, number])

            _fly(
                machine,
                memory,
                Flight(statement, effect, reads=[(memory.space, every_byte(flat[chosen]))], key=names),
                int(own[0]),
            )

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

            def effect(flat: Ints = flat, data: Words = data) -> None:
                memory.write(flat, data)

            _fly(machine, memory, Flight(statement, effect, writes=[(memory.space, every_byte(flat))]), int(own[0]))

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
    to, of = statement.operands
    address, descriptor = _tensor_address(machine, to), machine.reader(of, np.uint64)
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
        issuer = Issuer(machine, statement, thread)
        try:
            shared = SharedWord.read(bits)
        except WrongWordError as error:
            machine.find("bounds", thread, str(error))
            return
        for block in issuer.blocks:
            source = issuer.shared(block, shared.addresses(True, lines, PIECE * places), "what it copies")
            cells = memory.offsets(block, (at >> 16) + lane, (at & MASK) + word)
            if source is None or not memory.there(cells, thread, "what it writes").all():
                continue

            def act(source: Ints = source, cells: Ints = cells) -> None:
                data = machine.shared.gather(source, PIECE).view(np.uint32).reshape(rows, -1)
                memory.write(cells, data[row, word])

            issuer.check(cells, "writes")
            issuer.issue(act, source, [], cells)

    return run


# multiplies


def _multiply(statement: Statement, machine: Machine) -> Step:
    words = statement.modifiers
    kind = next((w.removeprefix("kind::") for w in words if w.startswith("kind::")), "")
    if kind not in TYPES:
        raise statement.refused()
    buffers = [w for w in words if w in ("a", "b", "fill", "use", "lastuse", "discard") or w[:2] in BUFFERS]
    _known(statement, "ws", "block_scale", *SCALES_BLOCK, *buffers)
    scaled = "block_scale" in words
    if scaled != (kind in SCALES):
        raise statement.refused()
    size = next((SCALES_BLOCK[w] for w in words if w in SCALES_BLOCK), 32)
    form = Form(statement, kind, "cta_group::2" in words, "ws" in words, size if scaled else 0)
    d, a, b, word, *more = statement.operands
    scales = [_tensor_address(machine, operand) for operand in more[:2]] if scaled else []
    more = more[2:] if scaled else more
    if more and isinstance(more[0], Vector):
        raise statement.refused("with lanes that are not written")
    if len(more) > 1:
        raise statement.refused("with a scale of D or columns that are zero")
    enable = machine.reader(more[0], np.bool_) if more else None
    to, remote = _tensor_address(machine, d), isinstance(a, Address)
    first: Any = _tensor_address(machine, a) if remote else machine.reader(a, np.uint64)
    second, instruction = machine.reader(b, np.uint64), machine.reader(word, np.uint32)

    def run(where: Where) -> None:
        threads = machine.threads[where]
        values = [
            np.broadcast_to(np.asarray(read(where)), threads.shape)
            for read in (to, first, second, instruction, *scales)
        ]
        adds = np.broadcast_to(enable(where) if enable else np.True_, threads.shape)
        for number, thread in enumerate(threads):
            at, a_, b_, bits, *of_scales = (int(value[number]) for value in values)
            issuer = Issuer(machine, statement, int(thread))
            issue(issuer, form, Operands(at, a_, b_, bits, of_scales, bool(adds[number]), remote))

    return run


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
