"""wgmma: multiplies of a warpgroup in flight, factors in shared memory by descriptors, fences, groups, waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tcprobe.arithmetic.gemm import gemm
from tcprobe.arithmetic.parameters import Arithmetic, ElementTypes, Integers
from tcprobe.emulate.asynchronous import Flight
from tcprobe.emulate.clocks import clock_of
from tcprobe.emulate.fragments import join, places, split
from tcprobe.emulate.instructions.multiply import check_registers, form_of, slot_bits
from tcprobe.emulate.machine import Machine, Outcome, State, Step, Where
from tcprobe.emulate.memory import OUTSIDE, UNWRITTEN
from tcprobe.emulate.products import multiply, noted_rule
from tcprobe.emulate.ptx import Immediate, Negated, Operand, Register, Statement, Vector
from tcprobe.emulate.sparse import meetings, multiply_met
from tcprobe.emulate.unwritten import registers_of, results_and_sources
from tcprobe.errors import UsageError
from tcprobe.isa.arch import WARPGROUP
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.instruction import Instruction
from tcprobe.layout import descriptor
from tcprobe.layout.arrays import Ints

CHUNK = 16


@dataclass(eq=False)
class InFlight:
    """A multiply of a warpgroup: its group, the threads that have not waited for it, the registers that it has."""

    flight: Flight
    group: int
    left: Any
    accumulator: str  # the key of its registers in `Registers`
    factor: str
    engine: int
    clock: int


class Registers(State):
    """Registers of multiplies: how many in flight have them, and whether they were set since the last fence."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.open: list[InFlight] = []
        self.groups = np.zeros(machine.count, np.int64)
        self.fenced = np.zeros(machine.count, np.bool_)
        self.written: dict[str, Any] = {}  # by D's and A's registers, as read in flight or written
        self.reading: dict[str, Any] = {}
        self.dirty: dict[str, Any] = {}
        self.keys: dict[str, set[str]] = {}
        self.engines: dict[int, int] = {}
        for statement in machine.statements:
            if statement.name.startswith("wgmma.mma_async"):
                self.key(statement.operands[0])
                if isinstance(statement.operands[1], Vector):
                    self.key(statement.operands[1])

    def compiled(self) -> None:
        """Other instructions find registers in flight, and leave a mark on those that they set."""
        _look(self.machine, self)

    def key(self, operand: Operand) -> str:
        """A name for registers together."""
        names = list(registers_of(operand))
        key = f"{names[0]}...{names[-1]}" if names else ""
        for name in names:
            self.keys.setdefault(name, set()).add(key)
        zeros = np.zeros(self.machine.count, np.int64)
        for table in (self.written, self.reading, self.dirty):
            table.setdefault(key, zeros.copy())
        return key

    def engine(self, group: int) -> int:
        """Who a warpgroup's multiplies read shared memory as."""
        if group not in self.engines:
            self.engines[group] = self.machine.clocks.engine()
        return self.engines[group]

    def restart(self) -> None:
        """New blocks."""
        self.open.clear()
        self.groups[:] = 0
        self.fenced[:] = False
        for table in (self.written, self.reading, self.dirty):
            for counts in table.values():
                counts[:] = 0


def _look(machine: Machine, found: Registers) -> None:
    """Other instructions find registers in flight, and leave a mark on those that they set."""
    steps = machine.code.steps
    for pc, statement in enumerate(machine.statements):
        if statement.opcode == "wgmma":
            continue
        results, sources = results_and_sources(statement)
        sets = {key for name in results for key in found.keys.get(name, ())}
        reads = {key for name in sources for key in found.keys.get(name, ())}
        if sets or reads:
            steps[pc] = _looking(machine, found, statement, steps[pc], sets, reads)


def _looking(
    machine: Machine, found: Registers, statement: Statement, step: Step, sets: set[str], reads: set[str]
) -> Step:
    guard = statement.guard

    def run(where: Where) -> int | Outcome | None:
        threads = where
        if guard is not None:
            register, wanted = (guard.register, False) if isinstance(guard, Negated) else (guard, True)
            threads = machine.threads[where][machine.register(register)[where] == wanted]
        if found.open:
            for key in sets | reads:
                busy = found.written[key][threads] > 0
                if key in sets:
                    busy |= found.reading[key][threads] > 0
                if busy.any():
                    thread = int(machine.threads[threads][int(np.argmax(busy))])
                    machine.find("in-flight", thread, "touches a register that a multiply in flight reads or writes")
                    break
        for key in sets:
            found.dirty[key][threads] = 1
        return step(where)

    return run


def _wgmma(statement: Statement, machine: Machine) -> Step:
    words = statement.modifiers
    held = machine.state(Registers)
    if words[0] == "fence":

        def fence(where: Where) -> None:
            held.fenced[where] = True
            for counts in held.dirty.values():
                counts[where] = 0

        return machine.together(fence)
    if words[0] == "commit_group":

        def commit(where: Where) -> None:
            held.groups[where] += 1

        return machine.together(commit)
    if words[0] == "wait_group":
        return machine.together(_wait(statement, machine, held))
    if words[0] != "mma_async":
        raise statement.refused()
    return machine.together(Multiply(statement, machine, held).run, WARPGROUP)


def _wait(statement: Statement, machine: Machine, held: Registers) -> Step:
    operand = statement.operands[0]
    assert isinstance(operand, Immediate)

    def run(where: Where) -> None:
        if not held.open:
            return
        waits = np.zeros(machine.count, np.bool_)
        waits[where] = True
        kept = []
        for entry in held.open:
            done = entry.left & waits
            if done.any() and entry.group < int(held.groups[int(np.argmax(done))]) - operand.value:
                machine.flights.complete(entry.flight)
                machine.clocks.learn(np.flatnonzero(done), entry.engine, entry.clock)
                held.written[entry.accumulator][done] -= 1
                held.reading[entry.factor][done] -= 1
                entry.left &= ~waits
            if entry.left.any():
                kept.append(entry)
        held.open[:] = kept

    return run


class Multiply:
    """One wgmma.mma_async."""

    def __init__(self, statement: Statement, machine: Machine, held: Registers) -> None:
        self.statement, self.machine, self.held = statement, machine, held
        self.instruction: Instruction = form_of(statement)
        form = self.instruction.id
        self.types, self.rule = noted_rule(form, machine.arch, machine.report)
        target, a, b, *rest = statement.operands
        self.metadata = None
        if self.instruction.metadata:
            metadata, selector, *rest = rest
            if not isinstance(selector, Immediate):
                raise statement.refused("with a selector in a register")
            self.metadata = machine.reader(metadata, np.uint32)
            self.met = meetings(form, selector.value, machine.arch)
        self.in_registers = isinstance(a, Vector)
        in_registers = {"d": target} | ({"a": a} if self.in_registers else {})
        check_registers(machine, statement, self.instruction, in_registers)
        self.accumulator = held.key(target)
        self.factor = held.key(a) if self.in_registers else self.accumulator
        self.d = places(form, "d", machine.arch)
        self.arrays = [machine.register(item) for item in machine.items(target) if isinstance(item, Register)]
        if self.in_registers:
            self.a_places = places(form, "a", machine.arch)
            self.a_arrays = [machine.register(item) for item in machine.items(a) if isinstance(item, Register)]
        self.a = None if self.in_registers else machine.reader(a, np.uint64)
        self.b = machine.reader(b, np.uint64)
        scale, *numbers = rest
        self.scale = machine.reader(scale, np.bool_)
        whole = [n.value for n in numbers if isinstance(n, Immediate)]
        self.negative = (whole[0] == -1, whole[1] == -1) if len(whole) >= 2 else (False, False)
        turned = whole[2:]
        majors = [("k", "mn")[n] for n in turned]
        self.major_b = majors[-1] if majors else "k"
        self.major_a = majors[0] if len(majors) == 2 else "k"
        operands = {operand.name: operand for operand in self.instruction.operands}
        self.bits = dtype(operands["b_smem"].type).bits
        self.shape = self.instruction.shape
        self.satfinite = "satfinite" in statement.modifiers

    def run(self, where: Where) -> None:
        """For each warpgroup."""
        threads = self.machine.threads[where]
        for group in threads.reshape(-1, WARPGROUP):
            self._issue(group)

    def _issue(self, group: Any) -> None:
        machine, held = self.machine, self.held
        first = int(group[0])
        span = slice(first, first + WARPGROUP)
        if (
            not held.fenced[span].all()
            or held.dirty[self.accumulator][span].any()
            or held.dirty[self.factor][span].any()
        ):
            machine.find(
                "race", first, "registers of the multiply were set since the last wgmma.fence, or there was none"
            )
        a = None
        if self.a is not None:
            a = self._smem(self.a, span, self.major_a, (self.shape.m, self.instruction.stored), first)
        b = self._smem(self.b, span, self.major_b, (self.shape.n, self.shape.k), first)
        if b is None or (self.a is not None and a is None):
            return
        scale = bool(np.broadcast_to(self.scale(span), (WARPGROUP,))[0])
        regions = [np.unique(part.reshape(-1) // CHUNK) * CHUNK for part in (a, b) if part is not None]
        engine = held.engine(first // WARPGROUP)
        tag = machine.clocks.engine_tag(engine, int(machine.clocks.serial[first]))
        for region in regions:
            machine.shared.add_readers(
                np.full(region.size, first // 32 + (first // WARPGROUP)), region, CHUNK, np.full(region.size, tag)
            )
        reads = [(machine.shared, (region[:, None] + np.arange(CHUNK)).reshape(-1)) for region in regions]
        lines = None  # of B that A's columns meet; metadata is read with the descriptors
        if self.metadata is not None:
            words = np.broadcast_to(self.metadata(span), (WARPGROUP,)).reshape(1, WARPGROUP, 1)
            lines = self.met(words, machine.report)
        flight = Flight(self.statement, lambda: self._effect(span, a, b, lines, scale), reads=reads)
        own = [entry.flight for entry in held.open if entry.left[first]]
        flight.after = own[-1] if own else None
        left = np.zeros(machine.count, np.bool_)
        left[span] = True
        held.open.append(
            InFlight(flight, int(held.groups[first]), left, self.accumulator, self.factor, engine, clock_of(tag))
        )
        held.written[self.accumulator][span] += 1
        held.reading[self.factor][span] += 1
        machine.flights.issue(flight)

    def _smem(self, read: Any, span: slice, major: str, size: tuple[int, int], first: int) -> Ints | None:
        """(lines, k) offsets in the memory of all blocks of a factor's elements; None, with a finding, if outside."""
        machine = self.machine
        bits = np.broadcast_to(read(span), (WARPGROUP,))
        if (bits != bits[0]).any():
            machine.find("bounds", first, "the threads of the warpgroup have different descriptors")
        try:
            within = element_offsets(int(bits[0]), major, *size, self.bits)
        except UsageError as error:
            machine.find("bounds", first, str(error)[:200])
            return None
        block = int(machine.block_of[first]) * machine.shared_bytes
        if int(within.min()) < 0 or int(within.max()) >= machine.shared_bytes:
            machine.find("bounds", first, "the descriptor leads outside the block's shared memory")
            return None
        places_ = within + block
        region = np.unique(places_.reshape(-1) // CHUNK) * CHUNK
        states = machine.shared.states(region, CHUNK)
        if (states == OUTSIDE).any():
            machine.find("bounds", first, "the descriptor leads outside the block's shared memory")
            return None
        if (states == UNWRITTEN).any():
            machine.find("uninitialised", first, "the multiply reads shared memory that nobody wrote")
        machine.check_read(machine.shared, region, CHUNK, np.full(region.size, first), fenced=True)
        return places_

    def _effect(self, span: slice, a_places: Ints | None, b_places: Ints, met: Ints | None, scale: bool) -> None:
        kind: Any = np.dtype(f"u{self.bits // 8}")
        memory = self.machine.shared
        size = kind.itemsize
        b = memory.gather(b_places.reshape(-1), size).view(kind).reshape(b_places.shape)
        if a_places is None:
            words = np.stack([array[span] for array in self.a_arrays], axis=-1)[None]
            a = self.a_places.gather(split(words.view(np.uint32), slot_bits(self.instruction, "a")))[0]
        else:
            a = memory.gather(a_places.reshape(-1), size).view(kind).reshape(a_places.shape)
        sign = kind.type(1 << self.bits - 1)
        a = a ^ sign if self.negative[0] else a
        b = b ^ sign if self.negative[1] else b
        words = np.stack([array[span].view(np.uint32) for array in self.arrays], axis=-1)[None]
        held = np.ascontiguousarray(split(words, slot_bits(self.instruction, "d")))
        c = self.d.gather(held)[0] if scale else np.zeros((self.shape.m, self.shape.n), held.dtype)
        if met is None:
            made = product(self.types, self.rule, a, b, c, self.satfinite)[None]
        else:
            made = multiply_met(self.types, self.rule, (a[None], b.T[None], c[None]), met, self.satfinite)
        self.d.scatter(held, made.astype(held.dtype))
        registers_ = join(held, np.uint32)[0]
        for number, array in enumerate(self.arrays):
            array.view(np.uint32)[span] = registers_[:, number]


def product(
    types: ElementTypes, rule: Arithmetic | Integers, a: Any, lines: Any, c: Any, satfinite: bool = False
) -> Any:
    """D of A (m, k) and B's lines (n, k)."""
    if isinstance(rule, Integers):
        return multiply(types, rule, a, lines.T, c, satfinite)
    return gemm(types, rule, (a, np.ascontiguousarray(lines.T), c))


@lru_cache(maxsize=4096)
def element_offsets(bits: int, major: str, lines: int, k: int, size: int) -> Ints:
    """(lines, k) addresses in the block's shared memory."""
    found = descriptor.decode(bits)
    line, along = np.arange(lines, dtype=np.int64)[:, None], np.arange(k, dtype=np.int64)[None, :]
    at: Any = descriptor.offsets(found, major, line, along, size)
    return np.broadcast_to(at + found.start, (lines, k))


OPCODES: Mapping[str, Callable[[Statement, Machine], Step | None]] = {"wgmma": _wgmma}
