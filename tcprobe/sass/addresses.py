"""Where the lanes of a warp reach: the addresses of a kernel's loads and stores, from its machine code.

Instructions are followed from the kernel's begin to a fixed point (`interpreter`), as far as an address, a guard or a
branch depends on them. Where lanes part by a branch, what they bring to the place where they meet again differs by
lane, and so does what they leave a loop with one by one. A loop may add what is alike in all lanes, however often.

Of addresses of 64 bits the low half is followed: lanes whose addresses are 4 GB apart would count as near.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from tcprobe.graph import immediate_post_dominators, reached
from tcprobe.isa.opcodes import mnemonics
from tcprobe.layout.arrays import Bools
from tcprobe.sass import lanes
from tcprobe.sass.decode import Form, Operand, union
from tcprobe.sass.dependence import Dependence, dependence
from tcprobe.sass.flow import backward
from tcprobe.sass.frame import reads, writes, written_in
from tcprobe.sass.interpreter import Interpreter
from tcprobe.sass.kernel import Instruction, Kernel
from tcprobe.sass.lanes import Lanes
from tcprobe.sass.registers import ALL_UNIFORM_PREDICATES, PREDICATE, UNIFORM, bit_set, guard_mask
from tcprobe.sass.state import NEVER, NEVER_BIT, PLACES, Register, Registers, State, alike, same, same_state, unset

SHARED = mnemonics(lambda row: row.accesses and "shared" in (*row.reads, *row.writes))
GLOBAL = mnemonics(
    lambda row: row.accesses and row.kind in ("load", "store", "copy") and "global" in (*row.reads, *row.writes)
)
ACCESSES = SHARED | GLOBAL
WHOLE_WARP = mnemonics(lambda row: row.lanes == "warp")
DESCRIBED = ("gdesc", "idesc")
EVERY: Bools = np.ones((1, 1), np.bool_)
UNIFORM_REGISTERS = (1 << PREDICATE) - (1 << UNIFORM) | ALL_UNIFORM_PREDICATES  # one for a warp
SETTLED = 3  # visits of a block after which what still changes is taken for all that it may become
MOST_VISITS = 40


class Reach(NamedTuple):
    """An instruction's address and the lanes that may take part, of each warp that is looked at: (warps, 32).

    `source`: of a copy from global to shared memory, the address that it reads. `shapes`: the number of the shape of
    the block that each warp is of.
    """

    instruction: Instruction
    address: Lanes
    active: Bools
    shapes: tuple[int, ...]
    source: Lanes | None = None
    sure: bool = True  # whether it is known which lanes take part


class DivergentBranch(NamedTuple):
    """A branch on which lanes of a warp part: `region` are the blocks up to the one where they meet again. `known`:
    which lanes take it, (warps, 32), None where that depends on what is not known.
    """

    branch: Instruction
    region: frozenset[int]
    known: Bools | None


class Present(NamedTuple):
    """The lanes that may be at an instruction, (warps, 32), and whether that is known; of those that there are.

    `guarded`: the lanes that its guard lets execute it, None where that is not known and may differ between lanes.
    `shapes`: as of `Reach`.
    """

    active: Bools
    there: Bools
    sure: bool
    guarded: Bools | None
    shapes: tuple[int, ...]


@lru_cache(maxsize=1)
def walked(kernel: Kernel) -> Walk:
    """A kernel, followed to a fixed point."""
    walk = Walk(kernel)
    walk.settle()
    return walk


def divergent_branches(kernel: Kernel) -> tuple[DivergentBranch, ...]:
    """The branches on which lanes of a warp part, or may part, in order of addresses."""
    return walked(kernel).seen.divergent_branches if kernel.blocks else ()


def exits(kernel: Kernel) -> tuple[tuple[Instruction, Bools | None], ...]:
    """The exits at which some lanes of a warp may end and others not, with those that do, (warps, 32): None where that
    is not known."""
    return walked(kernel).seen.exits


def present(kernel: Kernel) -> dict[int, Present]:
    """By number of an instruction that a whole warp executes, the lanes that do."""
    return walked(kernel).seen.present


def descriptors(kernel: Kernel) -> dict[int, dict[Operand, tuple[Lanes, ...]]]:
    """By number of a multiply, what its descriptors hold, in order of registers: by gdesc[UR8], idesc[UR4]."""
    return walked(kernel).seen.descriptors


def reaches(kernel: Kernel) -> tuple[Reach, ...]:
    """All loads, stores, matrix moves, atomics and copies of shared memory, and loads and stores of global memory.

    In order of addresses; what is not reached from the kernel's begin is not among them.
    """
    if not ACCESSES & kernel.mnemonics or not kernel.blocks:
        return ()
    return walked(kernel).seen.reaches


class Seen(NamedTuple):
    """What is asked of a walk, from what holds at last."""

    reaches: tuple[Reach, ...]
    present: dict[int, Present]
    descriptors: dict[int, dict[Operand, tuple[Lanes, ...]]]
    divergent_branches: tuple[DivergentBranch, ...]
    exits: tuple[tuple[Instruction, Bools | None], ...]


Visit = Callable[[Instruction, State], None]


class Step(NamedTuple):
    """An instruction that counts: what its results depend on, None where nothing depends on them; and whether it is
    one that is asked about.
    """

    instruction: Instruction
    depends: Dependence | None
    root: bool


class Walk:
    """One kernel, followed to a fixed point."""

    def __init__(self, kernel: Kernel, interpreter: Interpreter | None = None) -> None:
        self.kernel = kernel
        self.interpreter = interpreter or Interpreter(kernel)
        self.successors = [block.after for block in kernel.blocks]
        self.live = backward(kernel, 0, _needed_before, int.__or__)
        self.steps = {number: self._steps(number) for number in range(len(kernel.blocks))}
        self.entries: dict[int, State] = {}
        self.edges: dict[tuple[int, int], State] = {}
        # by block that ends with a branch on which lanes differ, the blocks up to the one where they meet again
        self.divergent: dict[int, frozenset[int]] = {}
        self._behind: dict[int, list[tuple[int, frozenset[int]]]] = {}
        self._writes: dict[frozenset[int], int] = {}  # by loop

    def _steps(self, number: int) -> list[Step]:
        """The instructions of a block on which an address, a guard or a branch depends, and the accesses."""
        found, live, block = [], self.live.get(number, 0), self.kernel.blocks[number]
        for index in reversed(range(block.first, block.end)):
            instruction = self.kernel.instructions[index]
            written, kept, read, roots = _needs(instruction.form)
            needed, root = written & live, _is_root(instruction.form)
            if needed or root:
                found.append(Step(instruction, dependence(instruction.form) if needed else None, root))
            live = (live & kept | read if needed else live) | roots
        return found[::-1]

    def settle(self) -> None:
        """Visit blocks until nothing changes."""
        pending, visits = {0}, dict[int, int]()
        while pending:
            number = min(pending)
            pending.discard(number)
            visits[number] = visits.get(number, 0) + 1
            entry, old = self._entry(number), self.entries.get(number)
            if old is not None:
                entry = _widened(number, old, entry, visits[number])
            self.entries[number] = entry
            divergent = len(self.divergent)
            for after, leaving in self._leave(number, self.run(number, entry)):
                known = self.edges.get((number, after))
                if known is None or not same_state(known, leaving):
                    self.edges[number, after] = leaving
                    pending.add(after)
            if len(self.divergent) > divergent:
                region = self.divergent[number] | {number}
                pending |= {after for place, after in self.edges if place in region}

    @cached_property
    def seen(self) -> Seen:
        """What holds at last, of every instruction that is asked about."""
        found: list[Reach] = []
        present: dict[int, Present] = {}
        described: dict[int, dict[Operand, tuple[Lanes, ...]]] = {}
        divergent_branches: list[DivergentBranch] = []
        exits: list[tuple[Instruction, Bools | None]] = []

        def note(instruction: Instruction, state: State) -> None:
            if instruction.mnemonic in ACCESSES:
                found.append(self._reach(instruction, state))
            if instruction.mnemonic == "EXIT":
                condition = self.interpreter.condition(instruction.guard, state.registers)
                if not condition.uniform:
                    exits.append((instruction, condition.known != 0 if condition.exact else None))
            if instruction.mnemonic in WHOLE_WARP:
                present[instruction.number] = self.present(instruction, state)
            if instruction.mnemonic.endswith("MMA"):
                operands = [operand for operand in instruction.operands if operand.prefix in DESCRIBED]
                if operands:
                    described[instruction.number] = {
                        operand: tuple(self.interpreter.inputs(operand.mask, state.registers)) for operand in operands
                    }

        for number, entry in self.entries.items():
            state = self.run(number, entry, note)
            if number in self.divergent:
                branch = self.kernel.instructions[self.kernel.blocks[number].end - 1]
                taken = self.interpreter.taken(branch, state.registers)
                divergent_branches.append(
                    DivergentBranch(branch, self.divergent[number], taken.known != 0 if taken.exact else None)
                )
        found.sort(key=lambda reach: reach.instruction.number)
        divergent_branches.sort(key=lambda divergent: divergent.branch.number)
        return Seen(tuple(found), present, described, tuple(divergent_branches), tuple(exits))

    def present(self, instruction: Instruction, state: State) -> Present:
        """The lanes that execute an instruction."""
        threads = self.interpreter.threads
        if not instruction.guard:
            return Present(state.active, threads.there, state.sure, EVERY, threads.shapes)
        condition = self.interpreter.condition(instruction.guard, state.registers)
        active, sure = state.active, state.sure and (condition.exact or condition.uniform)
        if condition.exact:
            active = np.asarray(active & (condition.known != 0))
        guarded = None
        if condition.exact or condition.uniform:
            guarded = np.broadcast_to(condition.known != 0 if condition.exact else True, active.shape)
        return Present(active, threads.there, sure, guarded, threads.shapes)

    def run(self, number: int, entry: State, note: Visit | None = None) -> State:
        """What holds at the end of a block."""
        state = entry._replace(registers=dict(entry.registers))
        self.interpreter.begin()
        write = self.interpreter.write
        for instruction, depends, root in self.steps[number]:
            if root and note is not None:
                note(instruction, state)
            if depends is not None:
                write(instruction, depends, state.registers)
            elif root and instruction.mnemonic == "EXIT":
                state = self.interpreter.behind_exit(instruction, state)
        return state

    def _reach(self, instruction: Instruction, state: State) -> Reach:
        """An access by what holds before it."""
        places = [operand for operand in instruction.operands if operand.kind == "address"]
        seen = self.interpreter.seen(instruction.form, state.registers)
        addresses = [self.interpreter.address(operand, seen) for operand in places]
        active, _, sure, *_ = self.present(instruction, state)
        first = addresses[0] if addresses else lanes.unknown("no address is printed")
        source = addresses[1] if instruction.mnemonic == "LDGSTS" and len(addresses) > 1 else None
        return Reach(instruction, first, active, self.interpreter.threads.shapes, source, sure)

    def _entry(self, number: int) -> State:
        """What holds where a block begins: lanes that parted bring each their own, others agree on a way."""
        coming = [(b, self.edges[b, number]) for b in self.kernel.before[number] if (b, number) in self.edges]
        groups: list[tuple[set[int], State]] = []
        for block, state in coming:
            for group, (members, others) in enumerate(groups):
                if self._apart(number, block, members):
                    groups[group] = members | {block}, _met(number, others, state)
                    break
            else:
                groups.append(({block}, state))
        states = [state for _, state in groups]
        if number == 0:
            states.insert(0, State({}, self.interpreter.threads.there))
        joined = states[0]
        for state in states[1:]:
            registers = _merged(number, joined.registers, state.registers, lanes.join)
            joined = State(registers, joined.active | state.active, joined.sure and state.sure)
        return joined

    def _apart(self, number: int, block: int, members: set[int]) -> bool:
        """Whether lanes of one warp may come by a block and by one of others at the same time."""
        return any(self._by_other_sides(number, branch, block, members) for branch in self.divergent)

    def _by_other_sides(self, number: int, branch: int, block: int, members: set[int]) -> bool:
        """Whether a block is behind one side of a branch, and one of others behind another."""
        sides = [side | {branch} if after == number else side for after, side in self._sides(branch)]
        return any(block in sides[j] and not members.isdisjoint(sides[1 - j]) for j in range(len(sides)))

    def _sides(self, branch: int) -> list[tuple[int, frozenset[int]]]:
        """What may come behind each way of a branch until they meet again; for each where it begins."""
        if branch not in self._behind:
            after = self.kernel.blocks[branch].after
            self._behind[branch] = [(first, self._until_reconverged(branch, first)) for first in after]
        return self._behind[branch]

    def _leave(self, number: int, state: State) -> Iterator[tuple[int, State]]:
        """The blocks that follow, and what holds on the way there."""
        block = self.kernel.blocks[number]
        instruction = self.kernel.instructions[block.end - 1]
        ways = [(after, state) for after in block.after]
        if len(ways) == 2 and instruction.mnemonic == "BRA":
            # BRA.DIV is taken where a warp has not converged, to do the same lane by lane
            diverged = instruction.opcode.startswith("BRA.DIV")
            ways = ways[:1] if diverged else self._ways(number, instruction, state)
        registers = state.only(bit_set(self.live.get(number, 0))).registers
        for after, leaving in ways:
            yield after, self._left(number, after, leaving._replace(registers=registers))

    def _ways(self, number: int, branch: Instruction, state: State) -> list[tuple[int, State]]:
        """A conditional branch: through, and to its target; noted where lanes differ on it."""
        taken = self.interpreter.taken(branch, state.registers)
        ways = self.kernel.blocks[number].after
        if "ANY" in branch.opcode and not taken.uniform:  # all lanes go where one of them does
            return [(after, state) for after in ways]
        if not taken.uniform:
            self._diverge(number)
        if taken.exact:
            return state.sides(taken, ways)
        return [(after, state if taken.uniform else state._replace(sure=False)) for after in ways]

    def _diverge(self, number: int) -> None:
        if number not in self.divergent:
            self.divergent[number] = frozenset().union(*(side for _, side in self._sides(number)))

    def _until_reconverged(self, branch: int, first: int) -> frozenset[int]:
        """The blocks from one on, up to the one where the ways of a branch meet again."""
        return frozenset(reached(self.successors, [first], {self.post_dominators[branch]}))

    @cached_property
    def post_dominators(self) -> list[int]:
        """By block, the first one that every way from it to the kernel's end comes through; -1 where there is none."""
        return immediate_post_dominators(self.successors)

    def _left(self, number: int, after: int, state: State) -> State:
        """On a way out of a loop that lanes leave one by one, what the loop writes differs by lane."""
        for loop in self.kernel.loops:
            if number in loop and after not in loop and self._uneven(number, loop):
                state = state.changed(self._written(loop) & ~UNIFORM_REGISTERS, _uneven)
        return state

    def _uneven(self, number: int, loop: frozenset[int]) -> bool:
        return any(
            branch in loop and (number == branch or number in region) for branch, region in self.divergent.items()
        )

    def _written(self, loop: frozenset[int]) -> int:
        if loop not in self._writes:
            self._writes[loop] = written_in(self.kernel, loop)
        return self._writes[loop]


def _needed_before(live: int, instruction: Instruction) -> int:
    """The registers that count before an instruction, from those that count after it."""
    written, kept, read, roots = _needs(instruction.form)
    return (live & kept | read if written & live else live) | roots


@lru_cache(maxsize=1 << 14)
def _needs(form: Form) -> tuple[int, int, int, int]:
    """What an instruction writes, what it leaves as it was, what it reads, and what it depends on in any case."""
    written = writes(form)
    return written, -1 if form.guard else ~written, reads(form), _roots(form)


def _roots(form: Form) -> int:
    """The registers that an access, a branch or an exit itself depends on."""
    if form.mnemonic in ACCESSES:
        return union(o for o in form.operands if o.kind in ("address", "P", "UP")) | guard_mask(form.guard)
    if form.mnemonic in WHOLE_WARP or _described(form):
        return _described(form) | guard_mask(form.guard)
    return form.reads if form.mnemonic in ("BRA", "EXIT") else 0


@lru_cache(maxsize=1 << 14)
def _is_root(form: Form) -> bool:
    """Whether it is an instruction that is asked about, or by which lanes leave."""
    if form.guard == "never":
        return False
    if form.mnemonic == "EXIT":
        return bool(form.guard)
    return form.mnemonic in ACCESSES or form.mnemonic in WHOLE_WARP or bool(_described(form))


def _described(form: Form) -> int:
    """The registers of a multiply's descriptors of shared memory, and of its instruction descriptor."""
    return union(o for o in form.operands if form.mnemonic.endswith("MMA") and o.prefix in DESCRIBED)


def _met(number: int, one: State, other: State) -> State:
    """What lanes hold that come by two ways at once: chosen by lane where it is known which lanes come by which."""
    where = one.active
    if one.sure and other.sure and not (where & other.active).any():
        registers = _merged(number, one.registers, other.registers, lambda a, b: lanes.select(where, a, b))
    else:
        registers = _merged(number, one.registers, other.registers, lanes.mixed)
    return State(registers, np.asarray(where | other.active), one.sure and other.sure)


def _merged(number: int, one: Registers, other: Registers, how: Callable[[Lanes, Lanes], Lanes]) -> Registers:
    """What registers hold where two ways meet in a block; what comes unchanged by both is what it was."""
    if one is other:
        return one
    registers = {}
    for bit in one.keys() | other.keys():
        a, b = one.get(bit) or unset(bit), other.get(bit) or unset(bit)
        own = _own(number, bit)
        if a is b or b.definition == own:
            registers[bit] = a
        elif a.definition == own or a.value is NEVER or a.value is NEVER_BIT:
            registers[bit] = b
        elif b.value is NEVER or b.value is NEVER_BIT:
            registers[bit] = a
        elif a.definition == b.definition != -1:
            registers[bit] = Register(lanes.shared(lanes.join(a.value, b.value)), a.definition)
        else:
            alone = UNIFORM_REGISTERS >> bit & 1
            met = alike(bit, lanes.join(a.value, b.value)) if alone else how(a.value, b.value)
            registers[bit] = Register(lanes.shared(met), own)
    return registers


def _own(number: int, bit: int) -> int:
    """The definition of what a block itself brings together."""
    return -2 - (number << PLACES | bit)


def _widened(number: int, old: State, new: State, visits: int) -> State:
    """A block's entry on another visit: it only grows, and from some visit on at once as far as it may."""
    registers = {}
    for bit in old.registers.keys() | new.registers.keys():
        before, coming = old.registers.get(bit) or unset(bit), new.registers.get(bit) or unset(bit)
        registers[bit] = before
        if not same(before, coming):
            definition = coming.definition
            if visits > SETTLED and definition != before.definition:
                definition = _own(number, bit)
            value = lanes.join(before.value, coming.value)
            if visits > SETTLED and not lanes.same(before.value, value):
                value = (
                    lanes.widened(value) if visits < MOST_VISITS else lanes.unknown(value.why or "it does not settle")
                )
            if definition != before.definition or not lanes.same(before.value, value):
                registers[bit] = Register(lanes.shared(value), definition)
    return State(registers, old.active | new.active, old.sure and new.sure)


def _uneven(_: int, register: Register) -> Register:
    """A register of which lanes left a loop one by one."""
    value = register.value
    return register if value.exact else Register(lanes.shared(lanes.uneven(value)))
