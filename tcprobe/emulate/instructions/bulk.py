"""cp.async.bulk and its tensor forms: copies by the async proxy, which mbarriers or groups of a thread count."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tcprobe.emulate.asynchronous import Flight
from tcprobe.emulate.boxes import MAP_BYTES, Box, box_of, decode_map
from tcprobe.emulate.clocks import GPU, PROXY, WEAK, clock_of
from tcprobe.emulate.instructions.accesses import address_of, combine
from tcprobe.emulate.instructions.barriers import found_at, offsets_of
from tcprobe.emulate.instructions.copies import Copies
from tcprobe.emulate.machine import Machine, Step, Where
from tcprobe.emulate.memory import GLOBAL, OUTSIDE, UNWRITTEN, Space
from tcprobe.emulate.operands import NUMPY
from tcprobe.emulate.ptx import Address, Immediate, Operand, Statement, Vector
from tcprobe.errors import UsageError

CHUNK = 16  # bytes that every bulk copy is a multiple of
BOX_ALIGNMENT = 128
WORDS = ("async", "bulk", "tensor", "tile", "1d", "2d", "3d", "4d", "5d", "global", "shared::cta", "shared::cluster")
MORE = (
    "mbarrier::complete_tx::bytes",
    "bulk_group",
    "multicast::cluster",
    "L2::cache_hint",
    "cta_group::1",
    "cta_group::2",
)
REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")


def _bulk(statement: Statement, machine: Machine) -> Step | None:
    words = statement.modifiers
    if "bulk" not in words:
        return None
    if "commit_group" in words:
        groups = machine.state(BulkCopies).groups

        def commit(where: Where) -> None:
            groups[where] += 1

        return commit
    if "wait_group" in words:
        return _wait(statement, machine)
    if "prefetch" in words:
        return lambda where: None
    reduces = statement.opcode == "cp" and words[0] == "reduce"
    statement.only(*WORDS, *MORE, *((*REDUCED, *REDUCTIONS, *NUMPY) if reduces else ()))
    spaces = [word for word in words if word in ("global", "shared::cta", "shared::cluster")]
    if len(spaces) < 2:
        raise statement.refused()
    if spaces[0] == "global":
        return _store_bulk(statement, machine, reduces)
    if reduces:
        raise statement.refused("into shared memory")
    return _load_bulk(statement, machine, spaces[1])


REDUCED = ("reduce", "noftz", "release", "relaxed", "cta", "cluster", "gpu")


class BulkCopies(Copies):
    """Groups of bulk copies are counted apart; of one copy that is in flight, its thread and its group."""


def _wait(statement: Statement, machine: Machine) -> Step:
    operand = statement.operands[0]
    assert isinstance(operand, Immediate)
    groups = machine.state(BulkCopies).groups

    def run(where: Where) -> None:
        waits = {int(thread): int(groups[thread]) - operand.value for thread in machine.threads[where]}
        kept = []
        for flight, thread, group in machine.state(BulkCopies).open:
            if thread in waits and group < waits[thread]:
                machine.flights.complete(flight)
            else:
                kept.append((flight, thread, group))
        machine.state(BulkCopies).open[:] = kept

    return run


class Tensor:
    """The operand [map, {coordinates}]: the box and the coordinates of a thread."""

    def __init__(self, machine: Machine, operand: Operand) -> None:
        if not isinstance(operand, Address) or not operand.more or not isinstance(operand.more[0], Vector):
            raise machine.refuse("without coordinates")
        self.machine = machine
        self.address = address_of(machine, Address(operand.base, operand.offset), "generic")
        self.coordinates = [machine.reader(item, np.int32) for item in operand.more[0].items]

    def read(self, thread: int) -> tuple[Box, tuple[int, ...]] | None:
        """What a thread names; None, with a finding, where there is no map."""
        one = np.array([thread])
        at = int(np.broadcast_to(self.address(one), (1,))[0]) - GLOBAL
        memory = self.machine.memory
        tensor = decode_map(memory.bytes[at : at + MAP_BYTES].tobytes()) if 0 <= at <= memory.size - MAP_BYTES else None
        if tensor is None:
            self.machine.find("bounds", thread, "there is no tensor map at the address")
            return None
        if at % 64:
            self.machine.find("misaligned", thread, "the address of a tensor map is no multiple of 64")
        coordinates = tuple(int(np.broadcast_to(read(one), (1,))[0]) for read in self.coordinates)
        if len(coordinates) != tensor.rank:
            raise self.machine.refuse(f"with {len(coordinates)} coordinates of a map of {tensor.rank} dimensions")
        return box_of(tensor), coordinates


def one_of(read: Callable[[Where], Any], thread: int) -> int:
    """A thread's own number."""
    return int(np.broadcast_to(np.asarray(read(np.array([thread]))), (1,))[0])


def _load_bulk(statement: Statement, machine: Machine, source: str) -> Step:
    """Into shared memory; the mbarrier counts the bytes."""
    words = statement.modifiers
    operands = list(statement.operands)
    if "L2::cache_hint" in words:
        operands.pop()
    mask = machine.reader(operands.pop(), np.uint16) if "multicast::cluster" in words else None
    tensor = Tensor(machine, operands[1]) if "tensor" in words else None
    target = address_of(machine, operands[0], "shared::cluster")
    of = None if tensor else address_of(machine, operands[1], "global" if source == "global" else "shared")
    size = None if tensor else machine.reader(operands[2], np.uint32)
    barrier = address_of(machine, operands[2 if tensor else 3], "shared::cluster")

    def run(where: Where) -> None:
        box: Box | None
        for thread in map(int, machine.threads[where]):
            to, at = one_of(target, thread), one_of(barrier, thread)
            ranks = [None] if mask is None else [r for r in range(machine.shape.ranks) if one_of(mask, thread) >> r & 1]
            if tensor is not None:
                if (named := tensor.read(thread)) is None:
                    continue
                box, coordinates = named
                copy = _box_source(machine, box, coordinates, thread)
                count, alignment = box.bytes, BOX_ALIGNMENT
            else:
                assert of is not None
                assert size is not None
                count, alignment = one_of(size, thread), CHUNK
                if count % CHUNK:
                    machine.find("misaligned", thread, f"{count} bytes are no multiple of {CHUNK}")
                    continue
                copy = _line_source(machine, source, one_of(of, thread), count, thread)
                box = None
            for rank in ranks:
                where_to, where_at = (
                    (to, at) if rank is None else (to & 0xFFFFFF | rank << 24, at & 0xFFFFFF | rank << 24)
                )
                issue_copy(machine, statement, thread, where_to, where_at, box, count, alignment, copy)

    return run


def _box_source(machine: Machine, box: Box, coordinates: tuple[int, ...], thread: int) -> Callable[[], Any]:
    """What a box of a tensor holds, as (rows, elements), when the copy lands."""
    at, inside = box.elements(coordinates)
    memory = machine.memory
    kind = np.dtype(f"u{box.size}")
    offsets = np.where(inside, at - GLOBAL, 0)
    _check_global(machine, offsets[inside], box.size, thread)

    def copy() -> Any:
        words = memory.gather(offsets.reshape(-1), box.size).view(kind).reshape(box.shape)
        return np.where(inside, box.loaded(words), kind.type(box.outside))

    return copy


def _check_global(machine: Machine, offsets: Any, size: int, thread: int) -> None:
    """Findings for bytes of global memory that the async proxy may not read."""
    memory = machine.memory
    if not offsets.size:
        return
    if offsets.min() < 0 or offsets.max() > memory.size - size or (memory.states(offsets, size) == OUTSIDE).any():
        machine.find("bounds", thread, "the tensor map reaches beyond its buffer")
    elif memory.writer[offsets].any():
        machine.check_read(memory, offsets, size, np.full(offsets.size, thread), fenced=True)


def _line_source(machine: Machine, source: str, at: int, count: int, thread: int) -> Callable[[], Any]:
    """Bytes that follow each other."""
    places = at + np.arange(0, count, CHUNK)
    threads = np.full(places.size, thread)

    def copy() -> Any:
        made = np.zeros((places.size, CHUNK), np.uint8)
        for memory, offsets, lanes in machine.reach(
            "global" if source == "global" else "shared", places, CHUNK, threads
        ):
            machine.check_read(memory, offsets, CHUNK, threads[lanes], fenced=True)
            made[lanes] = memory.gather(offsets, CHUNK)
        return made

    return copy


def issue_copy(
    machine: Machine,
    statement: Statement,
    thread: int,
    to: int,
    at: int,
    box: Box | None,
    count: int,
    alignment: int,
    copy: Callable[[], Any],
) -> None:
    """One copy into one block's memory."""
    own = np.array([thread])
    if to % alignment:
        machine.find("misaligned", thread, f"the copy's address {to:#x} in shared memory is no multiple of {alignment}")
        return
    start = int(machine.shared_offsets(np.array([to]), own)[0])
    place = int(offsets_of(machine, "shared::cluster", np.array([at]), own)[0])
    barrier = found_at(machine, place, thread)
    if start < 0 or barrier is None:
        if start < 0:
            machine.find("bounds", thread, f"the copy's address {to:#x} is outside shared memory")
        return
    tags = machine.shared.writers(np.array([place]), 8)
    if not barrier.fenced and not (machine.clocks.ordered(own, tags, PROXY) | (tags == 0)).all():
        machine.find(
            "proxy",
            thread,
            "an mbarrier counts for the async proxy without a proxy fence, or fence.mbarrier_init, after its init",
        )
    block = start - to % (1 << 24)
    if box is not None:
        elements = block + box.places(to % (1 << 24))
        chunks = np.unique(elements // CHUNK) * CHUNK
    else:
        elements, chunks = np.zeros(0, np.int64), start + np.arange(0, count, CHUNK)
    memory = machine.shared
    if not chunks.size:
        return
    if chunks[-1] >= block + machine.shared_bytes or (memory.states(chunks, CHUNK) == OUTSIDE).any():
        machine.find("bounds", thread, f"{count} bytes from {to:#x} on reach beyond the block's shared memory")
        return
    threads = np.full(chunks.size, thread)
    check_overwritten(machine, memory, chunks, threads)

    def effect() -> None:
        data = copy()
        if box is not None:
            memory.scatter(elements.reshape(-1), np.ascontiguousarray(data).reshape(-1, 1).view(np.uint8))
        else:
            memory.scatter(chunks, data)
        memory.write_states(chunks, CHUNK)
        tag = machine.clocks.engine_tag(barrier.engine, int(machine.clocks.serial[thread]))
        memory.set_writers(chunks, CHUNK, np.full(chunks.size, tag))
        barrier.next_clock = clock_of(tag)
        flight.key = barrier.phase
        barrier.flights.append(flight)
        barrier.complete_bytes(count)

    flight = Flight(
        statement, effect, writes=[(memory, (chunks[:, None] + np.arange(CHUNK)).reshape(-1))], self_landing=True
    )
    flight.thread = thread
    machine.flights.issue(flight)


def check_overwritten(machine: Machine, memory: Space, chunks: Any, threads: Any) -> None:
    """Findings for what the async proxy overwrites: others' reads and writes must be over, and a thread's fenced."""
    machine.check_write(memory, chunks, ~memory.gather(chunks, CHUNK), threads)
    tags = memory.writers(chunks, CHUNK)
    if tags.any():
        late = ~machine.clocks.ordered(threads, tags, PROXY) & (tags != 0) & machine.clocks.ordered(threads, tags)
        if late.any():
            machine.find(
                "proxy",
                int(threads[0]),
                f"the async proxy overwrites what {machine.whose(int(tags[late][0]))} wrote, "
                "without fence.proxy.async between",
            )


def _store_bulk(statement: Statement, machine: Machine, reduces: bool) -> Step:
    """From shared to global memory, in a group of the thread."""
    words = statement.modifiers
    operands = list(statement.operands)
    if "L2::cache_hint" in words:
        operands.pop()
    tensor = Tensor(machine, operands[0]) if "tensor" in words else None
    source = address_of(machine, operands[1], "shared")
    target = None if tensor else address_of(machine, operands[0], "global")
    size = None if tensor else machine.reader(operands[2], np.uint32)
    name = next((word for word in words if word in REDUCTIONS), None) if reduces else None
    groups = machine.state(BulkCopies).groups

    def run(where: Where) -> None:
        for thread in map(int, machine.threads[where]):
            of = one_of(source, thread)
            alignment = BOX_ALIGNMENT if tensor else CHUNK
            if of % alignment:
                machine.find(
                    "misaligned", thread, f"the copy's address {of:#x} in shared memory is no multiple of {alignment}"
                )
                continue
            block = int(machine.shared_offsets(np.array([of]), np.array([thread]), any_rank=False)[0]) - of % (1 << 24)
            if block < 0:
                machine.find("bounds", thread, f"the copy's address {of:#x} is outside shared memory")
                continue
            if tensor is not None:
                if (named := tensor.read(thread)) is None:
                    continue
                box, coordinates = named
                at, inside = box.elements(coordinates)
                unit, places, to = box.size, (block + box.places(of % (1 << 24)))[inside], at[inside] - GLOBAL
            else:
                assert target is not None
                assert size is not None
                count = one_of(size, thread)
                unit, places = CHUNK, block + of % (1 << 24) + np.arange(0, count, CHUNK)
                to = one_of(target, thread) + np.arange(0, count, CHUNK) - GLOBAL
                if count % CHUNK:
                    machine.find("misaligned", thread, f"{count} bytes are no multiple of {CHUNK}")
                    continue
            _issue_store(machine, statement, thread, places, to, unit, _element(statement, name, unit), groups)

    return run


def _element(statement: Statement, name: str | None, unit: int) -> tuple[Callable[[Any, Any], Any], Any] | None:
    """How a reduction joins, and the type of an element."""
    if name is None:
        return None
    kind = next(
        (word for word in reversed(statement.modifiers) if word in NUMPY), f"f{8 * unit}" if unit in (2, 4) else "u32"
    )
    function = combine(name, kind)
    if function is None:
        raise UsageError(f"line {statement.line}: a reduction .{name}.{kind} is not emulated.")
    own = NUMPY[kind]
    return function, np.dtype(f"u{own.itemsize}") if own.kind == "f" else own


def _issue_store(
    machine: Machine, statement: Statement, thread: int, places: Any, to: Any, unit: int, joins: Any, groups: Any
) -> None:
    memory, shared = machine.memory, machine.shared
    if not places.size:
        return
    chunks = np.unique(places // CHUNK) * CHUNK
    if chunks[0] < 0 or chunks[-1] > shared.size - CHUNK or (shared.states(chunks, CHUNK) == OUTSIDE).any():
        machine.find("bounds", thread, "the copy reads beyond the block's shared memory")
        return
    if (shared.states(places, unit) == UNWRITTEN).any():
        machine.find("uninitialised", thread, "the copy reads shared memory that nobody wrote")
    machine.check_read(shared, places, unit, np.full(places.size, thread), fenced=True)
    if to.min() < 0 or to.max() > memory.size - unit or (memory.states(to, unit) == OUTSIDE).any():
        machine.find("bounds", thread, "the copy writes beyond the buffer in global memory")
        return
    own = np.full(to.size, thread)

    def effect() -> None:
        data = shared.gather(places, unit)
        if joins is not None:
            function, kind = joins
            old = memory.gather(to, unit).view(kind)
            data = np.ascontiguousarray(function(old, data.view(kind))).astype(kind).view(np.uint8)
        machine.write(memory, to, data.reshape(-1, unit), own, WEAK if joins is None else GPU)
        shared.add_readers(
            own[:1].repeat(places.size) // 32, places, unit, machine.clocks.tags(np.full(places.size, thread))
        )

    reads = [(shared, (places[:, None] + np.arange(unit)).reshape(-1))]
    flight = Flight(statement, effect, reads=reads, self_landing=True)
    flight.thread = thread
    machine.state(BulkCopies).open.append((flight, thread, int(groups[thread])))
    machine.flights.issue(flight)


OPCODES: Mapping[str, Callable[[Statement, Machine], Step | None]] = {"cp": _bulk}
