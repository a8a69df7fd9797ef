"""tcgen05.ld and .st of threads' registers, tcgen05.cp of shared memory, from PTX ISA 9.1, 9.7.16.8 and 9.7.16.9."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from tcprobe.emulate.asynchronous import Flight
from tcprobe.emulate.machine import WARP, Machine, Step, Where, as_slice
from tcprobe.emulate.matrix_words import SharedWord, WrongWordError
from tcprobe.emulate.operands import by_modifier, only, tensor_address
from tcprobe.emulate.ptx import Immediate, Operand, Statement
from tcprobe.emulate.tensor_layout import CELL, copied, registers
from tcprobe.emulate.tensor_memory import MASK, PIECE, Issuer, TensorMemory, Words, every_byte, tensor_memory
from tcprobe.emulate.unwritten import registers_of
from tcprobe.layout.arrays import Bools, Ints

POISON = 0x7FC0DEAD  # what registers hold that a load in flight will write


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
    reduced = ("red", "min", "max", "abs", "NaN", "f32", "u32", "s32") if "red" in words else ("b32",)
    only(statement, "sync", "aligned", shape, number, "pack::16b", "unpack::16b", *reduced)
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
    reduced = "red" in statement.modifiers
    target, *results, source = statement.operands[: 3 if reduced else 2]
    moved = _moved(statement, statement.operands[3 if results else 2 :])
    writers = [machine.writer(item, np.uint32) for item in machine.items(target)]
    count = moved.lane.shape[1] // (2 if moved.halves else 1)
    if len(writers) != count:
        raise statement.refused(f"with {len(writers)} registers for {count}")
    if len(results) != reduced:
        raise statement.refused(f"with {len(statement.operands)} operands")
    finish = _reduced(statement) if reduced else _halved if moved.halves else np.asarray
    writers += [machine.writer(item, np.uint32) for item in results]
    address = tensor_address(machine, source)
    memory = tensor_memory(machine)
    names = [name for operand in (target, *results) for name in registers_of(operand)]
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
                for write, column in zip(writers, finish(words).T, strict=True):
                    write(mine, column)

            _fly(
                machine,
                memory,
                Flight(statement, effect, reads=[(memory.space, every_byte(flat[chosen]))], key=names),
                int(own[0]),
            )

    return machine.together(run)


def _halved(words: Words) -> Words:
    """The low halves of two columns as a word."""
    return (words[:, 0::2] & MASK | words[:, 1::2] << 16).astype(np.uint32)


def _reduced(statement: Statement) -> Callable[[Words], Words]:
    """From the words of each thread to these and the least or greatest of them, as PTX's min and max have it."""
    words = statement.modifiers
    kind = next((word for word in words if word in ("f32", "u32", "s32")), "")
    if not kind or ("min" in words) == ("max" in words) or (kind != "f32" and {"abs", "NaN"} & set(words)):
        raise statement.refused()
    if "32x32b" not in words:
        raise statement.refused("in another shape than 32x32b: no source says whether a lane's two halves are one")
    if "x1" in words:
        raise statement.refused("of one column")
    greatest, type_ = "max" in words, {"u32": np.uint32, "s32": np.int32}.get(kind)

    def reduce(held: Words) -> Words:
        if type_ is None:
            found = extreme_of_floats(held, greatest, "abs" in words, "NaN" in words)
        else:
            found = (np.max if greatest else np.min)(held.view(type_), axis=1).view(np.uint32)
        return np.concatenate([held, found[:, None]], axis=1)

    return reduce


def extreme_of_floats(held: Words, greatest: bool, magnitudes: bool, keeps_nan: bool) -> Words:
    """Of (threads, words of f32) the greatest or least: -0 is below 0, a NaN counts only if kept or all are."""
    bits = held & np.uint32(0x7FFFFFFF) if magnitudes else held
    nan = (bits & np.uint32(0x7FFFFFFF)) > 0x7F800000
    order = np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31)).astype(np.int64)
    order = np.where(nan, -1 if greatest else 1 << 32, order)
    at = order.argmax(axis=1) if greatest else order.argmin(axis=1)
    found = np.take_along_axis(bits, at[:, None], 1)[:, 0]
    wrong = nan.any(axis=1) if keeps_nan else nan.all(axis=1)
    return np.where(wrong, np.uint32(0x7FFFFFFF), found).astype(np.uint32)


def _store(statement: Statement, machine: Machine) -> Step:
    target, *middle, source = statement.operands
    moved = _moved(statement, tuple(middle))
    readers = [machine.reader(item, np.uint32) for item in machine.items(source)]
    count = moved.lane.shape[1] // (2 if moved.halves else 1)
    if len(readers) != count:
        raise statement.refused(f"with {len(readers)} registers for {count}")
    address = tensor_address(machine, target)
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
    machine.flights.issue(flight)
    memory.loads.append((flight, thread // WARP))


# copies


def _copy(statement: Statement, machine: Machine) -> Step:
    words = statement.modifiers
    shape = next((w for w in words if w in ("128x256b", "4x256b", "128x128b", "64x128b", "32x128b")), None)
    multicast = next((w for w in words if w.startswith("warpx")), "")
    if shape is None:
        raise statement.refused()
    only(statement, shape, multicast)
    try:
        row, word, lane = copied(shape, multicast)
    except KeyError as error:
        raise statement.refused() from error
    to, of = statement.operands
    address, descriptor = tensor_address(machine, to), machine.reader(of, np.uint64)
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


OPCODES: Mapping[str, Callable[[Statement, Machine], Step | None]] = {
    "tcgen05": by_modifier(
        {
            "ld": _load,
            "st": _store,
            "cp": _copy,
        }
    )
}
