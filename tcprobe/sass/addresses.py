"""Where the lanes of a warp reach: the addresses of a kernel's loads and stores, from its machine code.

Instructions are followed from the kernel's begin to a fixed point (`interpreter`), as far as an address, a guard or a
branch depends on them. Where lanes part by a branch, what they bring to the place where they meet again differs by
lane, and so does what they leave a loop with one by one. A loop may add what is alike in all lanes, however often.

Of addresses of 64 bits the low half is followed: lanes whose addresses are 4 GB apart would count as near.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from tcprobe.graph import immediate_post_dominators, reached
from tcprobe.isa.opcodes import mnemonics
from tcprobe.layout.arrays import Bools
from tcprobe.sass import lanes
from tcprobe.sass.decode import Form, Operand, union
from tcprobe.sass.dependence import dependence
from tcprobe.sass.flow import backward
from tcprobe.sass.frame import reads, writes, written_in
from tcprobe.sass.interpreter import Interpreter
from tcprobe.sass.join import UNIFORM_REGISTERS, Join, uneven, widened
from tcprobe.sass.kernel import Instruction, Kernel
from tcprobe.sass.lanes import Lanes
from tcprobe.sass.registers import bit_set, guard_mask
from tcprobe.sass.state import State, same, unset
from tcprobe.sass.transfer import Effect, Step, Transfer

SHARED = mnemonics(lambda row: row.accesses and "shared" in (*row.reads, *row.writes))
GLOBAL = mnemonics(
    lambda row: row.accesses and row.kind in ("load", "store", "copy") and "global" in (*row.reads, *row.writes)
)
ACCESSES = SHARED | GLOBAL
WHOLE_WARP = mnemonics(lambda row: row.lanes == "warp")
DESCRIBED = ("gdesc", "idesc")
EVERY: Bools = np.ones((1, 1), np.bool_)
NONE = frozenset[int]()


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


class Walk:
    """One kernel, followed to a fixed point."""

    def __init__(self, kernel: Kernel, interpreter: Interpreter | None = None) -> None:
        self.kernel = kernel
        self.interpreter = interpreter or Interpreter(kernel)
        self.successors = [block.after for block in kernel.blocks]
        self.live = backward(kernel, 0, _needed_before, int.__or__)
        self.steps = {number: self._steps(number) for number in range(len(kernel.blocks))}
        self.transfers = {number: Transfer(self.interpreter, steps) for number, steps in self.steps.items()}
        self._effects: dict[int, Effect] = {}  # by block the last one
        self.entries: dict[int, State] = {}
        self.edges: dict[tuple[int, int], State] = {}
        self._visits: dict[int, int] = {}
        self._joins: dict[int, Join] = {}
        self._stale: set[int] = set()  # blocks of which the join has to be made anew
        self._changed: dict[int, set[int]] = {}  # by block, registers that changed on ways to it, or at its last visit
        # by way that has all that holds behind its block, the registers that lanes took out of a loop one by one
        self._left: dict[tuple[int, int], frozenset[int]] = {}
        self._exited: dict[tuple[int, int], list[frozenset[int]]] = {}  # by way, the loops that it leaves
        # by block that ends with a branch on which lanes differ, the blocks up to the one where they meet again
        self.divergent: dict[int, frozenset[int]] = {}
        self._behind: dict[int, list[tuple[int, frozenset[int]]]] = {}
        self._writes: dict[frozenset[int], frozenset[int]] = {}  # by loop

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
        pending = {0}
        while pending:
            number = min(pending)
            pending.discard(number)
            divergent, changed = len(self.divergent), self._enter(number)
            if changed is not None:
                pending.update(self._pass(number, changed))
            if len(self.divergent) > divergent:
                self._stale.update(self._joins)
                region = self.divergent[number] | {number}
                pending |= {after for place, after in self.edges if place in region}

    def _enter(self, number: int) -> Collection[int] | None:
        """Join what comes to a block: the registers that changed, None where all is as it was when it was run last.

        Only those are joined that changed on a way to it, or at its last visit: what a join left as it was, it would
        leave so again.
        """
        visits = self._visits[number] = self._visits.get(number, 0) + 1
        looked, join = self._changed.pop(number, set()), self._joins.get(number)
        anew = join is None or number in self._stale
        if join is None or anew:
            plan = join and join.plan
            join = self._joins[number] = Join(number, self._coming(number))
            looked = looked if join.plan == plan else join.bits()
            self._stale.discard(number)
        old = self.entries.get(number)
        if old is None:
            self.entries[number] = State(join.registers(), join.active, join.sure)
            return looked
        changed = set[int]()
        for bit in looked:
            before = old.registers.get(bit)
            register = widened(number, bit, before or unset(bit), join.register(bit), visits)
            if register is not before:
                old.registers[bit] = register
                changed.add(bit)
        self._changed[number] = changed
        entry = self.entries[number] = State(old.registers, old.active | join.active, old.sure and join.sure)
        grown = entry.sure != old.sure or bool((entry.active != old.active).any())
        return changed if changed or grown or anew else None

    def _pass(self, number: int, changed: Collection[int]) -> Iterator[int]:
        """Run a block, and note what holds on the ways behind it: the blocks to which it is other than before.

        Looked at are the registers that changed before it, and those that it writes, if it leaves others in them.
        """
        entry, transfer, living = self.entries[number], self.transfers[number], bit_set(self.live.get(number, 0))
        effect = transfer.effect(entry.registers)
        written = () if self._effects.get(number) is effect else transfer.writes
        looked = living if transfer.any else living.intersection((*changed, *written))
        self._effects[number] = effect
        before = {after: self._left.pop((number, after), None) for after in self.kernel.blocks[number].after}
        for after, leaving in self._leave(number, effect.behind(entry)):
            way = number, after
            known, one_by_one = self.edges.get(way), self._one_by_one(way)
            brought = {
                bit: uneven(register) if bit in one_by_one else register
                for bit in (looked if before[after] == one_by_one else living)
                if (register := leaving.registers.get(bit)) is not None
            }
            if known is None:
                self.edges[way], self._left[way] = leaving._replace(registers=brought), one_by_one
                self._joins.pop(after, None)
                yield after
                continue
            there = known.registers
            other = {bit for bit, register in brought.items() if there.get(bit) is not register}
            moved = known.sure != leaving.sure or bool((known.active != leaving.active).any())
            if moved or any(bit not in there or not same(there[bit], brought[bit]) for bit in other):
                self._changed.setdefault(after, set()).update(other)
                there.update(brought)
                other = set()
                if moved:
                    self.edges[way] = leaving._replace(registers=there)
                    self._stale.add(after)
                yield after
            if not other:
                self._left[way] = one_by_one

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

        for number in self.entries:
            state = self._through(number, note)
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

    def run(self, number: int, entry: State) -> State:
        """What holds at the end of a block."""
        return self.transfers[number].effect(entry.registers).behind(entry)

    def _through(self, number: int, note: Visit) -> State:
        """As `run` from what holds at last where the block begins; what is asked about is noted on the way."""
        entry = self.entries[number]
        state = entry._replace(registers=dict(entry.registers))
        self.interpreter.begin()
        for instruction, depends, root in self.steps[number]:
            if root:
                note(instruction, state)
            if depends is not None:
                self.interpreter.write(instruction, depends, state.registers)
            elif root and instruction.mnemonic == "EXIT":
                state = state.behind_exit(self.interpreter.condition(instruction.guard, state.registers))
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

    def _coming(self, number: int) -> list[list[tuple[int, State]]]:
        """What comes to a block, by the block that it is from: in groups of ways that lanes may take at once."""
        groups: list[list[tuple[int, State]]] = [] if number else [[(-1, State({}, self.interpreter.threads.there))]]
        for block in self.kernel.before[number]:
            if (block, number) in self.edges:
                coming = block, self.edges[block, number]
                for group in groups:
                    if self._apart(number, block, {other for other, _ in group}):
                        group.append(coming)
                        break
                else:
                    groups.append([coming])
        return groups

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

    def _leave(self, number: int, state: State) -> list[tuple[int, State]]:
        """The blocks that follow, and what holds on the way there."""
        block = self.kernel.blocks[number]
        instruction = self.kernel.instructions[block.end - 1]
        ways = [(after, state) for after in block.after]
        if len(ways) == 2 and instruction.mnemonic == "BRA":
            # BRA.DIV is taken where a warp has not converged, to do the same lane by lane
            diverged = instruction.opcode.startswith("BRA.DIV")
            return ways[:1] if diverged else self._ways(number, instruction, state)
        return ways

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

    def _one_by_one(self, way: tuple[int, int]) -> frozenset[int]:
        """On a way out of a loop that lanes leave one by one, what the loop writes: it differs by lane."""
        number, after = way
        if way not in self._exited:
            self._exited[way] = [loop for loop in self.kernel.loops if number in loop and after not in loop]
        left = [self._written(loop) for loop in self._exited[way] if self._uneven(number, loop)]
        return NONE.union(*left) if left else NONE

    def _uneven(self, number: int, loop: frozenset[int]) -> bool:
        return any(
            branch in loop and (number == branch or number in region) for branch, region in self.divergent.items()
        )

    def _written(self, loop: frozenset[int]) -> frozenset[int]:
        if loop not in self._writes:
            self._writes[loop] = bit_set(written_in(self.kernel, loop) & ~UNIFORM_REGISTERS)
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
