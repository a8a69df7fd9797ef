"""What the instructions of a block make of a state: the block's transfer function.

Blocks are executed over and over, by rounds of a loop and until nothing changes, and most often with the same in those
registers that they read: then they leave the same. So what they leave is remembered by that.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from tcprobe.sass.dependence import Dependence
from tcprobe.sass.frame import SLOTS, reads, slots, writes
from tcprobe.sass.interpreter import Interpreter
from tcprobe.sass.kernel import Instruction
from tcprobe.sass.lanes import Lanes
from tcprobe.sass.registers import bit_set, bits_of
from tcprobe.sass.state import Register, Registers, State

MOST_KNOWN = 1 << 9  # effects of one block that are remembered


class Step(NamedTuple):
    """An instruction that counts: what its results depend on, None where nothing depends on them; and whether it is
    one that is asked about, or by which lanes leave.
    """

    instruction: Instruction
    depends: Dependence | None
    root: bool


class Effect(NamedTuple):
    """What a block does: what it leaves in registers; of its exits and of what is asked about, in order, the condition
    of an exit, and what others read.
    """

    written: Registers
    passed: tuple[tuple[Instruction, Lanes | Registers], ...]

    def behind(self, state: State, noted: list[tuple[int, State]] | None = None) -> State:
        """What holds behind the block; `noted` takes what holds before the instructions that are asked about."""
        for instruction, found in self.passed:
            if isinstance(found, Lanes):
                state = state.behind_exit(found)
            elif noted is not None:
                noted.append((instruction.number, state._replace(registers=found)))
        return state._replace(registers={**state.registers, **self.written})


class Transfer:
    """The transfer function of a block's steps. `asked`: numbers of the instructions whose states are noted.

    `writes`: the registers and words of the frame that it writes; with `any`, any word of the frame beside them.
    """

    def __init__(self, interpreter: Interpreter, steps: Sequence[Step], asked: Collection[int] = ()) -> None:
        self._interpreter, self._steps, self._asked = interpreter, steps, asked
        exposed = written = 0
        for instruction, depends, _ in steps:
            form, read = instruction.form, reads(instruction.form)
            if depends is not None:
                read |= sum(1 << bit for bit in {*depends.reads, *depends.kept})
                read |= writes(form) if form.guard else 0  # what is left as it was
            exposed |= read & ~written
            written |= writes(form) if depends is not None else 0
        stores = [i.form for i, depends, _ in steps if depends is not None and i.mnemonic == "STL"]
        self.any = any(slots(form) is None for form in stores)  # of an array that lanes index, which may be any word
        self._reads, self.writes = tuple(bits_of(exposed)), bit_set(written)
        self._known: dict[tuple[Register | None, ...], Effect] = {}

    def effect(self, registers: Registers) -> Effect:
        """What the block does to registers."""
        if self.any:
            return self._executed(registers)
        key = tuple([registers.get(bit) for bit in self._reads])
        effect = self._known.get(key)
        if effect is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            effect = self._known[key] = self._executed(registers)
        return effect

    def _executed(self, entry: Registers) -> Effect:
        interpreter, registers = self._interpreter, dict(entry)
        passed: list[tuple[Instruction, Lanes | Registers]] = []
        interpreter.begin()
        for instruction, depends, root in self._steps:
            form = instruction.form
            if root and instruction.mnemonic == "EXIT":
                passed.append((instruction, interpreter.condition(form.guard, registers)))
            elif instruction.number in self._asked:
                seen = interpreter.seen(form, registers)
                passed.append((instruction, {bit: seen[bit] for bit in bits_of(form.reads) if bit in seen}))
            if depends is not None:
                interpreter.write(instruction, depends, registers)
        changed = self.writes | {bit for bit in registers if bit >= SLOTS} if self.any else self.writes
        return Effect({bit: registers[bit] for bit in changed if bit in registers}, tuple(passed))
