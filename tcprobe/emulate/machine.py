"""The state of the blocks that run together: registers, special registers, memory, and how operands become arrays.

A register is an array over all threads, of bits as unsigned numbers. An instruction is compiled to a *step*: a function
of the threads that execute it (a slice, or their numbers), which returns None where the next instruction follows, the
number of a statement to go on at, or an `Outcome`. `instructions/NAME.py` holds the compilers, by opcode.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from tcprobe.emulate.asynchronous import Flights
from tcprobe.emulate.clocks import CTA, ENTITY, ENTITY_BITS, GPU, PROXY, SCOPE, SERIAL_AT, WEAK, Clocks, Views
from tcprobe.emulate.memory import (
    FIRST_SHARED,
    GLOBAL,
    LOCAL,
    OUTSIDE,
    RANK,
    READ_ONLY,
    SHARED,
    UNWRITTEN,
    WINDOW,
    GlobalMemory,
    Space,
)
from tcprobe.emulate.ptx import (
    Address,
    Function,
    Immediate,
    Module,
    Named,
    Operand,
    Register,
    Sink,
    Special,
    Statement,
    Vector,
)
from tcprobe.emulate.report import Report
from tcprobe.errors import UsageError
from tcprobe.layout.arrays import Array, Bools, Bytes, Ints

Where: TypeAlias = Any  # which threads: a slice, or their numbers
Reader = Callable[[Where], Any]
Writer = Callable[[Where, Any], None]
WARP = 32
MOST_THREADS = 1 << 14
MOST_SHARED = 227 << 10
MOST_LOCAL = 1 << 20  # bytes of a thread
BITS: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
FLOATS: dict[str, Any] = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
SIGNED: dict[int, Any] = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


class Wait(NamedTuple):
    """What threads wait for: whether it has come, in words what it is; `again`: the instruction runs once more then.

    `together`: other threads that wait at the same instruction join these.
    """

    ready: Callable[[], bool]
    words: Callable[[], str]
    again: bool = True
    together: bool = False


class Part(NamedTuple):
    """Threads that go on at a statement, or end (-1), or wait."""

    pc: int
    where: Where
    wait: Wait | None = None


class Outcome(NamedTuple):
    """Threads part; they meet again at statement `join`, if anywhere. `later`: others may run first."""

    parts: tuple[Part, ...]
    join: int = -1
    later: bool = False


Step: TypeAlias = Callable[[Where], "int | Outcome | None"]
END = -1


class Shape(NamedTuple):
    """Of a launch."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    dynamic: int  # bytes of shared memory

    @property
    def threads(self) -> int:
        """Of a block."""
        x, y, z = self.block
        return x * y * z

    @property
    def ranks(self) -> int:
        """Blocks of a cluster."""
        x, y, z = self.cluster
        return x * y * z


class Join(NamedTuple):
    """Where threads meet again that parted in one place."""

    pc: int
    number: int


@dataclass(eq=False)
class Front:
    """Threads at one statement; `calls` are the statements to return to, `wait` what they wait for."""

    pc: int
    where: Where
    joins: tuple[Join, ...] = ()
    calls: tuple[int, ...] = ()
    wait: Wait | None = None
    parked: bool = False
    warps: int = field(default=0)


@dataclass(eq=False)
class Code:
    """A kernel and the functions that it calls: their statements in a row, and the step of each.

    `labels`, `starts`: the numbers of the statements that they stand before; `joins`: by statement that parts threads,
    where they meet again; `aliases`: by the name of a caller's result, that of the callee.
    """

    statements: list[Statement] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    functions: dict[str, Function] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    joins: dict[int, int] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)


class State:
    """What a group of instructions keeps of a machine, made when it is asked for first (`Machine.state`)."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def compiled(self) -> None:
        """Every statement has its step."""

    def restart(self) -> None:
        """The next blocks begin."""


S = TypeVar("S", bound=State)


class Machine:
    """`clusters` of blocks side by side, of one kernel; `restart` gives it the next ones."""

    def __init__(
        self, module: Module, shape: Shape, memory: GlobalMemory, clusters: int, report: Report, arch: str, views: Views
    ) -> None:
        self.module, self.shape, self.report, self.arch = module, shape, report, arch
        self.blocks = clusters * shape.ranks
        self.threads_of_block = -(-shape.threads // WARP) * WARP  # lanes of a last warp that there are not never live
        self.count = self.blocks * self.threads_of_block
        self.threads = np.arange(self.count)
        self.block_of = self.threads // self.threads_of_block
        self.live = np.zeros(self.count, np.bool_)
        self.clocks = Clocks(self.count, shape.ranks * self.threads_of_block, views)
        self.memory = memory
        self.registers: dict[str, Array] = {}
        self.special: dict[str, Array] = {}
        self.places: dict[str, tuple[str, int]] = {}  # of variables: space and offset or address
        self.parameters: dict[str, Bytes] = {}  # of calls, of each thread
        self.constants: dict[str, bytes] = {}  # the kernel's parameters
        self.pc = 0
        self.code = Code()
        self.flights = Flights()
        self.front = Front(0, self.threads)  # that runs
        self.states: dict[type[State], State] = {}
        self.shared_bytes = self._place_shared()
        self.shared = Space("shared", self.blocks * self.shared_bytes)
        self.local = Space("local", self.count * self._place_local(), 0)
        self.local_bytes = self.local.size // self.count if self.count else 0
        # of a block, by thread of the cluster: when and where it last touched the block's shared memory from another
        self.visited, self.visited_at = (np.zeros((self.blocks, self.clocks.cluster), np.int32) for _ in range(2))

    @property
    def statements(self) -> list[Statement]:
        """Those of the code."""
        return self.code.statements

    def state(self, kind: type[S]) -> S:
        """What a group of instructions keeps."""
        found = self.states.get(kind)
        if found is None:
            found = self.states[kind] = kind(self)
        assert isinstance(found, kind)
        return found

    def _place_shared(self) -> int:
        at = FIRST_SHARED
        every = [
            *self.module.variables.values(),
            *(v for f in self.module.functions.values() for v in f.variables.values()),
        ]
        dynamic = []
        for variable in every:
            if variable.space != "shared":
                continue
            at = -(-at // variable.align) * variable.align
            if variable.size:
                self.places[variable.name] = ("shared", at)
                at += variable.size
            else:
                dynamic.append(variable)
        at = max([-(-at // v.align) * v.align for v in dynamic] or [at])
        for variable in dynamic:
            self.places[variable.name] = ("shared", at)
        self.shared_used = at + self.shape.dynamic
        if self.shared_used - FIRST_SHARED > MOST_SHARED:
            raise UsageError(
                f"the block has {self.shared_used - FIRST_SHARED} bytes of shared memory; at most {MOST_SHARED} exist."
            )
        return -(-self.shared_used // 1024) * 1024 + 1024

    def _place_local(self) -> int:
        at = 64
        for function in self.module.functions.values():
            for variable in function.variables.values():
                if variable.space == "local":
                    at = -(-at // variable.align) * variable.align
                    self.places[variable.name] = ("local", at)
                    at += variable.size
        if at > MOST_LOCAL:
            raise UsageError(f"a thread has {at} bytes of local memory; at most {MOST_LOCAL} are emulated.")
        return -(-at // 64) * 64

    def restart(self, first: int) -> None:
        """The clusters of the grid from number `first` on; those beyond the last have no threads."""
        shape, threads = self.shape, self.threads
        (gx, gy, gz), (bx, by, _), (cx, cy, cz) = shape.grid, shape.block, shape.cluster
        rank, within = self.block_of % shape.ranks, threads % self.threads_of_block
        cluster = first + self.block_of // shape.ranks
        across = (gx // cx, gy // cy, gz // cz)
        place = (cluster % across[0], cluster // across[0] % across[1], cluster // (across[0] * across[1]))
        inside = (rank % cx, rank // cx % cy, rank // (cx * cy))
        block = [p * c + i for p, c, i in zip(place, shape.cluster, inside, strict=True)]
        tid = (within % bx, within // bx % by, within // (bx * by))
        self.live[:] = (within < shape.threads) & (cluster < across[0] * across[1] * across[2])
        lane = threads % WARP
        values: dict[str, Any] = {
            "%laneid": lane,
            "%warpid": within // WARP,
            "%nwarpid": np.full_like(threads, self.threads_of_block // WARP),
            "%smid": self.block_of,
            "%nsmid": np.full_like(threads, 132),
            "%gridid": np.ones_like(threads),
            "%cluster_ctarank": rank,
            "%cluster_nctarank": np.full_like(threads, shape.ranks),
            "%is_explicit_cluster": np.full_like(threads, shape.ranks > 1),
            "%dynamic_smem_size": np.full_like(threads, shape.dynamic),
            "%total_smem_size": np.full_like(threads, self.shared_used - FIRST_SHARED),
            "%lanemask_eq": 1 << lane,
            "%lanemask_lt": (1 << lane) - 1,
            "%lanemask_le": (2 << lane) - 1,
            "%lanemask_gt": 0xFFFFFFFF & ~((2 << lane) - 1),
            "%lanemask_ge": 0xFFFFFFFF & ~((1 << lane) - 1),
        }
        for axis, letter in enumerate("xyz"):
            values[f"%tid.{letter}"] = tid[axis]
            values[f"%ntid.{letter}"] = np.full_like(threads, shape.block[axis])
            values[f"%ctaid.{letter}"] = block[axis]
            values[f"%nctaid.{letter}"] = np.full_like(threads, shape.grid[axis])
            values[f"%clusterid.{letter}"] = place[axis]
            values[f"%nclusterid.{letter}"] = np.full_like(threads, across[axis])
            values[f"%cluster_ctaid.{letter}"] = inside[axis]
            values[f"%cluster_nctaid.{letter}"] = np.full_like(threads, shape.cluster[axis])
        for name, numbers in values.items():
            self._special(name)[:] = numbers
        self.clocks.restart(cluster.astype(np.int64) + 1)
        self.visited[:] = 0
        self.shared.clear()
        for number in range(self.blocks):
            self.shared.exist(number * self.shared_bytes + FIRST_SHARED, self.shared_used - FIRST_SHARED)
        self.local.clear()
        self.local.exist(0, self.local.size)
        for state in self.states.values():
            state.restart()

    def _special(self, name: str) -> Array:
        return self.special.setdefault(name, np.zeros(self.count, np.uint32))

    # what steps read and write

    def register(self, register: Register) -> Array:
        """Its bits in all threads."""
        found = self.registers.get(register.name)
        if found is None:
            kind: Any = np.bool_ if register.type == "pred" else BITS.get(register.bytes)
            if kind is None:  # of 128 bits
                found = np.zeros((self.count, register.bytes // 8), np.uint64)
            else:
                found = np.zeros(self.count, kind)
            self.registers[register.name] = found
        return found

    def reader(self, operand: Operand, kind: Any) -> Reader:
        """An operand's numbers as NumPy's type `kind`, for threads; a number in the text is a scalar."""
        kind = np.dtype(kind)
        if isinstance(operand, Register):
            array = self.register(operand)
            if kind == np.bool_ or array.dtype.itemsize == kind.itemsize:
                whole: Reader = array.view(kind).__getitem__
                return whole
            if array.dtype.itemsize > kind.itemsize:  # the low bits
                low: Reader = array.view(kind)[:: array.dtype.itemsize // kind.itemsize].__getitem__
                return low
            return lambda where: array[where].astype(kind)
        if isinstance(operand, Immediate):
            scalar = immediate(operand, kind)
            return lambda where: scalar
        if isinstance(operand, Special):
            return self._special_reader(operand.name, kind)
        if isinstance(operand, Named) or (isinstance(operand, Address) and isinstance(operand.base, Named)):
            return self.address_reader(operand, kind)
        raise self.refuse(f"an operand {type(operand).__name__.lower()}")

    def _special_reader(self, name: str, kind: np.dtype[Any]) -> Reader:
        if name in ("%clock", "%clock64", "%globaltimer", "%globaltimer_lo", "%clock_hi", "%globaltimer_hi"):
            return lambda where: kind.type(self.report.instructions & 0x7FFFFFFF)
        if name not in self.special:
            if name == "WARP_SZ":
                return lambda where: kind.type(WARP)
            raise self.refuse(f"the register {name}")
        array = self.special[name]
        return lambda where: array[where].astype(kind)

    def address_reader(self, operand: Named | Address, kind: Any) -> Reader:
        """The address of a variable, in its own space."""
        base = operand if isinstance(operand, Named) else operand.base
        added = operand.offset if isinstance(operand, Address) else 0
        assert isinstance(base, Named)
        if base.name not in self.places:
            raise self.refuse(f"the name {base.name[:60]}")
        space, at = self.places[base.name]
        at, kind = at + added, np.dtype(kind).type
        if space != "shared" or self.shape.ranks == 1:
            return lambda where: kind(at)
        ranks = (self.special["%cluster_ctarank"].astype(np.uint64) << np.uint64(RANK)) + np.uint64(at)
        return lambda where: ranks[where].astype(kind)

    def writer(self, operand: Operand, kind: Any) -> Writer:
        """Sets an operand from numbers of NumPy's type `kind`; a wider register is extended as the type is."""
        kind = np.dtype(kind)
        if isinstance(operand, Sink):
            return lambda where, value: None
        if not isinstance(operand, Register):
            raise self.refuse("a destination that is no register")
        array = self.register(operand)
        if kind == np.bool_ or array.dtype.itemsize == kind.itemsize:
            whole: Writer = array.view(kind).__setitem__
            return whole
        if array.dtype.itemsize < kind.itemsize:
            raise self.refuse(f"a register of {8 * array.dtype.itemsize} bits")
        wide: Any = (SIGNED if kind.kind == "i" else BITS)[array.dtype.itemsize]
        bits: Any = kind if kind.kind in "iu" else BITS[kind.itemsize]
        view = array.view(wide)

        def write(where: Where, value: Any) -> None:
            view[where] = np.asarray(value, kind).view(bits).astype(wide)

        return write

    def label(self, operand: Operand) -> int:
        """The statement that a label stands before."""
        assert isinstance(operand, Named)
        found = self.code.labels.get(operand.name)
        if found is None:
            raise self.refuse(f"the label {operand.name[:60]}")
        return found

    def refuse(self, why: str = "") -> UsageError:
        """That the current statement is not emulated."""
        return self.statements[self.pc].refused(why)

    def items(self, operand: Operand) -> tuple[Operand, ...]:
        """The registers of a vector, or the one that stands alone."""
        return operand.items if isinstance(operand, Vector) else (operand,)

    # threads

    def subset(self, where: Where, mask: Bools) -> Where:
        """Those of the threads that a mask names."""
        chosen = self.threads[where][mask]
        return as_slice(chosen)

    def numbers(self, where: Where) -> NDArray[np.intp]:
        """The threads' numbers."""
        return self.threads[where]

    def incomplete(self, where: Where, unit: int = WARP) -> Bools | None:
        """Which of the threads are of a warp, or group of `unit`, of which others live elsewhere; None if none are."""
        if (
            type(where) is slice
            and not (where.start or 0) % unit
            and (self.count if where.stop is None else where.stop) % unit == 0
        ):
            return None
        here = np.zeros(self.count, np.bool_)
        here[where] = True
        missing: Bools = np.any((self.live & ~here).reshape(-1, unit), axis=1)
        apart: Bools = missing[self.threads[where] // unit]
        return apart if apart.any() else None

    def together(self, step: Step, unit: int = WARP) -> Step:
        """A step that whole warps, or groups of warps, execute: threads wait for the others."""

        def run(where: Where) -> int | Outcome | None:
            apart = self.incomplete(where, unit)
            return step(where) if apart is None else self.wait_together(where, apart)

        return run

    def wait_together(self, where: Where, apart: Bools) -> Outcome:
        """Some of the threads wait here for others of their warps; the rest runs."""
        pc, threads = self.pc, self.subset(where, apart)
        wait = Wait(lambda: False, lambda: "the other threads of the warp, which are elsewhere", together=True)
        parts = [Part(pc, threads, wait)]
        if not apart.all():
            parts.append(Part(pc, self.subset(where, ~apart)))
        return Outcome(tuple(parts))

    # findings

    def find(self, rule: str, thread: int, text: str, statement: Statement | None = None) -> None:
        """A finding at the current statement, or at another."""
        at = statement or self.statements[self.pc]
        block = int(self.block_of[thread])
        x, y, z = (int(self.special[f"%ctaid.{letter}"][thread]) for letter in "xyz")
        where = f" (block {x}, {y}, {z})" if block or max(x, y, z) else ""
        self.report.add(rule, at.line, int(thread) % self.threads_of_block, text + where, at.source)

    # memory

    def load(self, space: str, addresses: Any, size: int, where: Where, strong: int = WEAK) -> Bytes:
        """`size` bytes at each thread's address; zeros where it may not read."""
        made, unwritten = self.load_marked(space, addresses, size, where, strong)
        if unwritten is not None:
            self._find_lane("uninitialised", self.threads[where], unwritten, "reads memory that nobody wrote")
        return made

    def load_marked(
        self, space: str, addresses: Any, size: int, where: Where, strong: int = WEAK
    ) -> tuple[Bytes, Bools | None]:
        """As `load`; and which of the threads read bytes that nobody wrote, None if none did."""
        threads = self.threads[where]
        made = np.zeros((threads.size, size), np.uint8)
        marks: Bools | None = None
        for memory, offsets, lanes in self.reach(space, addresses, size, threads):
            unwritten = (memory.states(offsets, size) == UNWRITTEN).any(axis=1)
            if unwritten.any():
                marks = np.zeros(threads.size, np.bool_) if marks is None else marks
                marks[lanes] = unwritten
            made[lanes] = self.read(memory, offsets, size, threads[lanes], strong)
        return made, marks

    def store(self, space: str, addresses: Any, data: Bytes, where: Where, strong: int = WEAK) -> None:
        """Bytes to each thread's address."""
        threads = self.threads[where]
        for memory, offsets, lanes in self.reach(space, addresses, data.shape[1], threads):
            self.write(memory, offsets, data[lanes], threads[lanes], strong)

    def reach(self, space: str, addresses: Any, size: int, threads: NDArray[np.intp]) -> list[tuple[Space, Ints, Any]]:
        """The memories that addresses lead to, offsets there, and which threads' they are; findings for the others."""
        at = np.broadcast_to(np.asarray(addresses), threads.shape).astype(np.int64)
        wrong = at % size != 0
        lanes: Any = slice(None)
        if wrong.any():
            first = int(np.argmax(wrong))
            self.find(
                "misaligned",
                int(threads[first]),
                f"address {int(at[first]) & (1 << 64) - 1:#x} is no multiple of {size}",
            )
            lanes = np.flatnonzero(~wrong)
        if space == "generic":
            return self._reach_generic(at, size, threads, lanes)
        return self._inside(*self._offsets(space, at[lanes], threads[lanes]), size, threads, lanes)

    def _reach_generic(
        self, at: Ints, size: int, threads: NDArray[np.intp], lanes: Any
    ) -> list[tuple[Space, Ints, Any]]:
        found = []
        every = self.threads[: threads.size][lanes]
        shared, local = ((at[every] >= base) & (at[every] < base + WINDOW) for base in (SHARED, LOCAL))
        for space, base, mine in (
            ("shared::cluster", SHARED, shared),
            ("local", LOCAL, local),
            ("global", 0, ~(shared | local)),
        ):
            if mine.any():
                chosen: Any = slice(None) if every.size == threads.size and mine.all() else every[mine]
                found += self._inside(*self._offsets(space, at[chosen] - base, threads[chosen]), size, threads, chosen)
        return found

    def _offsets(self, space: str, at: Ints, threads: NDArray[np.intp]) -> tuple[Space, Ints]:
        if space in ("global", "const", "param"):
            return self.memory, at - GLOBAL
        if space == "local":
            return self.local, np.where((at >= 0) & (at < self.local_bytes), threads * self.local_bytes + at, -1)
        offsets = self.shared_offsets(at, threads, any_rank=space == "shared::cluster")
        self.visit(offsets, threads)
        return self.shared, offsets

    def visit(self, offsets: Ints, threads: NDArray[np.intp]) -> None:
        """Threads touch shared memory of their cluster, maybe another block's, which must still be there."""
        if self.shape.ranks == 1:
            return
        blocks = offsets // self.shared_bytes
        far = (offsets >= 0) & (blocks != self.block_of[threads])
        if far.any():
            own = self.clocks.own[threads[far]]
            self.visited[blocks[far], own] = self.clocks.known[threads[far], own]
            self.visited_at[blocks[far], own] = self.pc

    def find_late_visits(self) -> None:
        """All have ended: findings for shared memory of blocks that did not wait for those who touched it."""
        for block in np.flatnonzero(self.visited.any(axis=1)).tolist():
            first = block * self.threads_of_block
            every = slice(first, first + self.threads_of_block)
            late = self.visited[block] > self.clocks.heard[every, : self.clocks.cluster].max(axis=0)
            if self.live[every].any() or not late.any():
                continue
            own = int(np.argmax(late))
            rank = block % self.shape.ranks
            self.find(
                "ended",
                (block - rank) * self.threads_of_block + own,
                f"touches shared memory of block {rank} of the cluster, which may have ended: nothing makes it wait",
                self.statements[self.visited_at[block, own]],
            )

    def shared_offsets(self, at: Ints, threads: NDArray[np.intp], any_rank: bool = True) -> Ints:
        """Offsets in the memory of all blocks; -1 for addresses that are in none of the cluster's."""
        rank, offset = at >> RANK, at & (1 << RANK) - 1
        own = self.block_of[threads] % self.shape.ranks
        right = (rank >= 0) & (rank < self.shape.ranks) & (offset < self.shared_bytes)
        if not any_rank:
            right &= rank == own
        block = self.block_of[threads] - own + rank
        return np.where(right, block * self.shared_bytes + offset, -1)

    def _inside(
        self, memory: Space, offsets: Ints, size: int, threads: NDArray[np.intp], lanes: Any
    ) -> list[tuple[Space, Ints, Any]]:
        outside = (offsets < 0) | (offsets > memory.size - size)
        safe = np.where(outside, 0, offsets)
        outside |= (memory.states(safe, size) == OUTSIDE).any(axis=1)
        if outside.any():
            first = int(np.argmax(outside))
            thread = int(threads[lanes][first])
            self.find(
                "bounds", thread, f"{size} bytes of {memory.name} memory {self._beyond(memory, int(offsets[first]))}"
            )
            lanes = self.threads[: threads.size][lanes][~outside]
            offsets = offsets[~outside]
        return [(memory, offsets, lanes)] if offsets.size else []

    def _beyond(self, memory: Space, offset: int) -> str:
        """Where an address is that is in no buffer."""
        if memory is not self.memory:
            return "are outside what the block has"
        address = GLOBAL + offset
        below = [b for b in self.memory.buffers if b.address <= address]
        if below and address - below[-1].address < below[-1].size + (1 << 20):
            return f"at {address - below[-1].address} of {below[-1].name}, which has {below[-1].size}"
        return f"at {address & (1 << 64) - 1:#x} are in no buffer"

    def read(self, memory: Space, offsets: Ints, size: int, threads: NDArray[np.intp], strong: int = WEAK) -> Bytes:
        """Bytes that exist, after it is checked that these threads may read them."""
        if memory is not self.local:
            self.check_read(memory, offsets, size, threads, strong)
            if len(memory.readers) and not strong:
                memory.add_readers(threads // WARP, offsets, size, self.clocks.tags(threads))
        return memory.gather(offsets, size)

    def check_read(
        self,
        memory: Space,
        offsets: Ints,
        size: int,
        threads: NDArray[np.intp],
        strong: int = WEAK,
        fenced: bool = False,
    ) -> None:
        """Findings for bytes that others write in the same time; `fenced`: the async proxy reads."""
        tags = memory.writers(offsets, size)
        if tags.any():
            unordered = self._unordered(threads, tags, strong)
            if unordered.any():
                self.find_race(memory, threads, unordered, tags, "reads", "wrote")
            elif fenced and (late := ~self.clocks.ordered(threads, tags, PROXY) & (tags != 0)).any():
                stored = late & ~memory.were_copied(offsets, size)
                rule, wrong, by = ("proxy", stored, "") if stored.any() else ("cp-async-proxy", late, " by cp.async")
                self._find_lane(
                    rule,
                    threads,
                    wrong.any(axis=1),
                    f"the async proxy reads {memory.name} memory that {self.whose(tags[wrong][0])} wrote{by}, "
                    "without fence.proxy.async between",
                )
        if memory.flights and (busy := memory.in_flight(offsets, size, writing=False)).any():
            self._find_lane("in-flight", threads, busy, f"reads {memory.name} memory that work in flight writes")

    def find_race(
        self, memory: Space, threads: NDArray[np.intp], unordered: Bools, tags: Ints, does: str, did: str
    ) -> None:
        """A race of the first thread."""
        lane: Bools = np.any(unordered, axis=1)
        tag = int(tags[unordered][0])
        self._find_lane(
            "race",
            threads,
            lane,
            f"{does} {memory.name} memory that {self.whose(tag)} {did}, and nothing orders the two",
        )

    def _unordered(self, threads: NDArray[np.intp], tags: Ints, scope: int = WEAK) -> Bools:
        """Which accesses of the tags may race with those that the threads do now."""
        there: Bools = np.asarray(tags != 0)
        if scope:
            there &= ~self._morally_strong(threads, scope, tags)
        return there & ~self.clocks.ordered(threads, tags) if there.any() else there

    def _morally_strong(self, threads: NDArray[np.intp], scope: int, tags: Ints) -> Bools:
        """Whether accesses of a scope may meet those of the tags: strong ones, each scope with the other's thread."""
        rows = threads.reshape((-1,) + (1,) * (tags.ndim - 1))
        least = np.minimum(tags >> ENTITY_BITS & SCOPE, scope)
        near = tags >> SERIAL_AT == self.clocks.serial[rows]
        same = near & ((tags & ENTITY) // self.threads_of_block == self.block_of[rows] % self.shape.ranks)
        return np.asarray((least == GPU) | near & (least > CTA) | same & (least > WEAK))

    def whose(self, tag: int) -> str:
        """Who a tag names."""
        number = tag & ENTITY
        if number >= self.clocks.cluster:
            return "work in flight"
        rank, thread = divmod(number, self.threads_of_block)
        return f"thread {thread}" + (f" of block {rank} of the cluster" if self.shape.ranks > 1 else "")

    def _find_lane(self, rule: str, threads: NDArray[np.intp], wrong: Bools, text: str) -> None:
        self.find(rule, int(threads[int(np.argmax(wrong))]), text)

    def write(self, memory: Space, offsets: Ints, data: Bytes, threads: NDArray[np.intp], strong: int = WEAK) -> None:
        """Set bytes that exist, after it is checked that these threads may."""
        size = data.shape[1]
        if memory is not self.local:
            self.check_write(memory, offsets, data, threads, strong)
            tags = self.clocks.tags(threads, strong)
            memory.set_writers(offsets, size, tags)
        memory.write_states(offsets, size)
        memory.scatter(offsets, data)
        if memory is not self.local and threads.size > 1 and not strong:
            several = memory.writer[offsets] != tags
            if several.any():
                lost = (memory.gather(offsets, size) != data).any(axis=1)
                rule, what = ("race", "") if lost.any() else ("same-value", ", the same value")
                self._find_lane(
                    rule,
                    threads,
                    lost if lost.any() else several,
                    f"two threads write one byte of {memory.name} memory at once{what}",
                )

    def check_write(
        self, memory: Space, offsets: Ints, data: Bytes, threads: NDArray[np.intp], strong: int = WEAK
    ) -> None:
        """Findings for bytes that others read or write in the same time."""
        size = data.shape[1]
        if (memory.states(offsets, size) == READ_ONLY).any():
            self.find("bounds", int(threads[0]), "writes memory that is only read")
        tags = memory.writers(offsets, size)
        if tags.any():
            unordered = self._unordered(threads, tags, strong)
            if unordered.any():
                other = unordered & (memory.gather(offsets, size) != data)
                if other.any():
                    self.find_race(memory, threads, other, tags, "writes", "wrote")
                else:
                    thread, tag = int(threads[unordered.any(axis=1).argmax()]), int(tags[unordered][0])
                    self.find(
                        "same-value",
                        thread,
                        f"writes {memory.name} memory that {self.whose(tag)} wrote, the same value, and nothing orders "
                        "the two",
                    )
        for readers in memory.readers_of(offsets, size):
            if readers.any():
                unordered = self._unordered(threads, readers)
                if unordered.any():
                    self.find_race(memory, threads, unordered, readers, "writes", "read")
                    break
        if memory.flights and (busy := memory.in_flight(offsets, size, writing=True)).any():
            self._find_lane(
                "in-flight", threads, busy, f"writes {memory.name} memory that work in flight reads or writes"
            )


def as_slice(threads: NDArray[np.intp]) -> Where:
    """Threads as a slice where they stand side by side, which is faster."""
    if threads.size and int(threads[-1]) - int(threads[0]) + 1 == threads.size:
        return slice(int(threads[0]), int(threads[-1]) + 1)
    return threads


def immediate(operand: Immediate, kind: np.dtype[Any]) -> Any:
    """A number of the text as a scalar."""
    if kind == np.bool_:
        return np.bool_(operand.value)
    if operand.type == "s64":
        if kind.kind == "f":
            return kind.type(operand.value)
        return np.array(operand.value & (1 << 8 * kind.itemsize) - 1, BITS[kind.itemsize]).view(kind)[()]
    own = np.array(operand.value, BITS[4 if operand.type == "f32" else 8]).view(FLOATS[operand.type])
    if kind.kind == "f":
        return own.astype(kind)[()]
    return own.astype(FLOATS[f"f{8 * kind.itemsize}"]).view(kind)[()]
