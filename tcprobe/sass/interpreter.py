"""What instructions leave in the registers of a warp's lanes, under their guards.

What lanes load each for itself is lost, and so is the result of an instruction that is not followed, unless all that it
reads is alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcprobe.isa.opcodes import opcode
from tcprobe.sass import frame, lanes
from tcprobe.sass.decode import Form
from tcprobe.sass.dependence import Dependence, numbered
from tcprobe.sass.frame import LOCAL, SLOTS, slots
from tcprobe.sass.kernel import Instruction, Kernel
from tcprobe.sass.lanes import CHOICE, UNKNOWN, Lanes, constant
from tcprobe.sass.meaning import HIGH, MEANINGS
from tcprobe.sass.reader import Reader
from tcprobe.sass.registers import BASE, PREDICATE, UNIFORM, UNIFORM_PREDICATE, guard_bit
from tcprobe.sass.state import NEVER, NEVER_BIT, PLACES, Register, Registers, unset

Under = tuple[str, int, Register]  # a guard, where its predicate is from, what a register holds where it is true
Results = tuple[tuple[Lanes, Lanes], ...]  # of each register that is written, what it holds; and where a guard is true
_results: dict[tuple[object, ...], Results] = {}  # by shape, threads and values what instructions write
MOST_RESULTS = 1 << 17  # about 60 MB
_MEMORY = frozenset(("shared", "global", "local", "generic"))


class Interpreter(Reader):
    """Executes a kernel's instructions, in the order of a way through it."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self._relocated, self._framed = kernel.code.relocated, frame.stays(kernel)
        # by bit of a register written under a guard in this block: the guard, where its predicate is from, the value
        self._under: dict[int, Under] = {}
        # by number of an instruction what it read when it was followed last, and what came of it
        self._known: dict[int, tuple[list[Register | None], list[tuple[int, Register, Under | None]]]] = {}
        seen = (*self.threads.tid, *self.threads.size)
        self.place = numbered((*self._sizes, self.threads.shapes, *[value.known.tobytes() for value in seen]))

    def begin(self) -> None:
        """Enter another block."""
        self._under.clear()

    def write(self, instruction: Instruction, depends: Dependence, registers: Registers) -> None:
        """Note what an instruction writes: what it wrote before, if it reads the same values as then."""
        form = instruction.form
        if form.mnemonic in LOCAL:
            self._spill(instruction, registers)
            return
        _, _, reads, kept, writes = depends
        own = self._own(form, registers) if kept and self._under else {}
        read = [own.get(bit) or registers.get(bit) for bit in reads] if own else [registers.get(bit) for bit in reads]
        if kept:
            read += [registers.get(bit) for bit in kept]
        known = self._known.get(instruction.number)
        if known is None or known[0] != read:
            base, definition = (
                instruction.number << PLACES,
                self._guard_definition(form.guard, registers) if kept else -1,
            )
            results = self._found(instruction, depends, read, {**registers, **own} if own else registers, registers)
            made: list[tuple[int, Register, Under | None]] = []
            for bit, (value, true) in zip(writes, results, strict=True):
                under = (form.guard, definition, Register(true, base | bit)) if kept else None
                made.append((bit, Register(value, base | bit), under))
            known = self._known[instruction.number] = read, made
        for bit, register, under in known[1]:
            if under is not None:
                self._under[bit] = under
            elif self._under:
                self._under.pop(bit, None)
            registers[bit] = register

    def seen(self, form: Form, registers: Registers) -> Registers:
        """What registers hold where an instruction is executed: what was written under the same guard, it reads."""
        own = self._own(form, registers) if form.guard and self._under else {}
        return {**registers, **own} if own else registers

    def _spill(self, instruction: Instruction, registers: Registers) -> None:
        """A store to the frame, or a load from it: what a kernel's own frame holds is what was stored there."""
        form, own = instruction.form, slots(instruction.form) if self._framed else None
        condition = self.condition(form.guard, registers) if form.guard else None
        if form.mnemonic == "STL" and own is None:  # an array that lanes index, or a frame that moves
            for bit in [bit for bit in registers if bit >= SLOTS]:
                registers[bit] = Register(lanes.unknown("a word of local memory"))
            return
        data = form.operands[0 if form.mnemonic == "LDL" else -1]
        moved = [BASE["R"] + data.first + j for j in range(max(data.width, 1))] if data.first >= 0 else []
        targets, sources = (moved, list(own or ())) if form.mnemonic == "LDL" else (list(own or ()), moved)
        for j, bit in enumerate(targets):
            value = (registers.get(sources[j]) or unset(sources[j])).value if j < len(sources) else None
            if value is None:
                value = constant(0) if form.mnemonic == "STL" else lanes.unknown("a word of local memory")
            old = (registers.get(bit) or unset(bit)).value
            if condition is not None and old is not NEVER:
                value = lanes.choose(condition, value, old)
            registers[bit] = Register(lanes.shared(value), instruction.number << PLACES | bit)

    def _found(
        self,
        instruction: Instruction,
        depends: Dependence,
        read: Sequence[Register | None],
        seen: Registers,
        registers: Registers,
    ) -> Results:
        """What an instruction writes: what one of its shape wrote that read the same values, if one did."""
        linked = instruction.address in self._relocated
        place = self.place if depends.placed else 0
        key = (depends.shape, place, linked, *[register and register.value for register in read])
        results = _results.get(key)
        if results is None:
            if len(_results) >= MOST_RESULTS:
                _results.clear()
            results = _results[key] = tuple(self._written(instruction, depends.writes, linked, seen, registers))
        return results

    def _written(
        self, instruction: Instruction, writes: Sequence[int], linked: bool, seen: Registers, registers: Registers
    ) -> Iterator[tuple[Lanes, Lanes]]:
        """Of each register that is written, what it holds then, and what where the guard is true."""
        form = instruction.form
        follow = MEANINGS.get(form.mnemonic)
        inputs = list(self.inputs(form.reads, seen))
        even = (follow is not None or opcode(form.mnemonic).lanes == "alike") and all(value.uniform for value in inputs)
        results = follow(self, form, seen) if follow and not linked else {}
        condition = self.condition(form.guard, registers) if form.guard else None
        why = _reason(instruction, inputs)
        written = {}
        for output, value in results.items():
            operand = form.operands[output % HIGH]
            if operand.kind in BASE and operand.first >= 0:
                written[BASE[operand.kind] + operand.first + output // HIGH] = value
        for bit in writes:
            value = written.get(bit)
            if value is None:
                value = _unfollowed(bit, even, why)
            true = value = lanes.shared(value)
            if condition is not None:
                old = (registers.get(bit) or unset(bit)).value
                value = value if old is NEVER or old is NEVER_BIT else lanes.shared(lanes.choose(condition, value, old))
            yield value, true

    def _own(self, form: Form, registers: Registers) -> Registers:
        """What was written under an instruction's guard."""
        definition = self._guard_definition(form.guard, registers)
        if definition < 0:
            return {}
        return {
            bit: value for bit, (guard, of, value) in self._under.items() if of == definition and guard == form.guard
        }

    def _guard_definition(self, guard: str, registers: Registers) -> int:
        """Where the predicate of a guard is from; negative where several ways brought it."""
        bit = guard_bit(guard)
        return (registers.get(bit) or unset(bit)).definition


def _unfollowed(bit: int, same: bool, why: str) -> Lanes:
    """What an instruction that is not followed gives: alike by its register, or because all that it reads is."""
    if bit >= PREDICATE:
        return CHOICE if same or bit >= UNIFORM_PREDICATE else lanes.unknown(why, 1)
    return UNKNOWN if same or bit >= UNIFORM else lanes.unknown(why)


def _reason(instruction: Instruction, inputs: Sequence[Lanes]) -> str:
    row = opcode(instruction.mnemonic)
    if row.accesses and not row.outputs and _MEMORY.intersection(row.reads):
        return "an address that lanes load"
    return next(
        (value.why for value in inputs if value.why), f"what {instruction.mnemonic} gives each lane is not followed"
    )
