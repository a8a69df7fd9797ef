"""A function's machine code as a graph.

Branches whose targets the file lists are followed, and calls inside the function's section: each return leads behind
every call of its routine. What is not followed is in `Kernel.unfollowed`, in words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from tcprobe.graph import natural_loops, predecessors
from tcprobe.isa.opcodes import of_kind
from tcprobe.sass.decode import Form, Operand
from tcprobe.sass.elf import FunctionCode

BYTES = 16  # of an instruction
_INDIRECT = of_kind("indirect branch")
_ENDS = of_kind("branch", "indirect branch", "return", "exit")
_JUMPS = _ENDS | of_kind("call")


class Control(NamedTuple):
    """Scheduling bits of an instruction: stall cycles, yield, barriers set at its write and after its reads (None: no
    barrier), the barriers that it waits for as bits, and the operands whose registers are cached.
    """

    stall: int
    yields: bool
    write_barrier: int | None
    read_barrier: int | None
    waits: int
    reuse: int


class Instruction(NamedTuple):
    """An instruction at its place: `number` counts from the function's begin, `address` is 16 times that.

    `form` says what the text says and is shared by all that have the same text; `mnemonic`: its opcode without
    modifiers.
    """

    number: int
    form: Form
    mnemonic: str

    @property
    def address(self) -> int:
        """The offset in the function, as nvdisasm prints it."""
        return BYTES * self.number

    @property
    def opcode(self) -> str:
        """With all modifiers."""
        return self.form.opcode

    @property
    def operands(self) -> tuple[Operand, ...]:
        """As they stand there."""
        return self.form.operands

    @property
    def reads(self) -> int:
        """The set of registers that it reads, see `registers`."""
        return self.form.reads

    @property
    def writes(self) -> int:
        """The set of registers that it writes."""
        return self.form.writes

    @property
    def guard(self) -> str:
        """As "!P0"; "" where it is always executed, "never" where it never is."""
        return self.form.guard

    def __str__(self) -> str:
        operands = ", ".join(operand.text for operand in self.form.operands)
        return " ".join(
            part for part in (self.form.guard and f"@{self.form.guard}", self.form.opcode, operands) if part
        )


class Block(NamedTuple):
    """Instructions `first` to `end` - 1, always executed one after the other; blocks that may follow."""

    first: int
    end: int
    after: tuple[int, ...]


@dataclass(eq=False)
class Kernel:
    """A function of a file. `instructions[i]` is at address 16 i; `unread` counts words that are not code.

    `file`: where it is from; `ptx`: the text that was assembled, where it was. `blocks` are in the order of addresses,
    the first is where it begins; what is not reached is in no block.
    """

    file: str
    arch: str
    code: FunctionCode
    instructions: Sequence[Instruction]
    unread: int = 0
    ptx: str | None = None
    unfollowed: list[tuple[int, str]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The function's, as the file spells it."""
        return self.code.name

    @cached_property
    def mnemonics(self) -> frozenset[str]:
        """All opcodes in it, without modifiers: what a rule looks at before anything else."""
        return frozenset(instruction.mnemonic for instruction in self.instructions)

    @cached_property
    def successors(self) -> dict[int, tuple[int, ...]]:
        """By number of every instruction that may be reached, those that may be executed next."""
        return _successors(self)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The basic blocks."""
        return _blocks(self.successors)

    @cached_property
    def block_of(self) -> dict[int, int]:
        """The number of the block of each instruction that may be reached."""
        return {j: n for n, block in enumerate(self.blocks) for j in range(block.first, block.end)}

    @cached_property
    def before(self) -> dict[int, tuple[int, ...]]:
        """By number of a block, those from which it may be reached at once."""
        return predecessors([block.after for block in self.blocks])

    @cached_property
    def loops(self) -> tuple[frozenset[int], ...]:
        """The loops, as sets of blocks: what may come between a block and itself; the innermost ones first."""
        return tuple(natural_loops([block.after for block in self.blocks]))

    def control(self, number: int) -> Control:
        """The scheduling bits of an instruction."""
        bits = int.from_bytes(self.code.code[BYTES * number :][:BYTES], "little") >> 105
        write, read = bits >> 5 & 7, bits >> 8 & 7
        return Control(
            bits & 15,
            not bits >> 4 & 1,
            None if write == 7 else write,
            None if read == 7 else read,
            bits >> 11 & 0x3F,
            bits >> 17 & 0xF,
        )


def not_followed(kernel: Kernel) -> list[tuple[int, str]]:
    """(address, why) of the calls and branches that are not followed."""
    if kernel.mnemonics.isdisjoint(_INDIRECT) and "CALL" not in kernel.mnemonics and not kernel.code.relocated:
        return []
    _ = kernel.successors
    return kernel.unfollowed


def target(instruction: Instruction) -> int | None:
    """The number of the instruction that a branch, call or BSSY names, None where it names none."""
    for operand in reversed(instruction.operands):
        if operand.kind == "number":
            return operand.value // BYTES
    return None


def _successors(kernel: Kernel) -> dict[int, tuple[int, ...]]:
    """Follows from the function's begin; fills `kernel.unfollowed`."""
    after: dict[int, tuple[int, ...]] = {}
    calls: dict[int, list[int]] = {}  # by number of a routine's first instruction, what follows its calls
    pending = [0] if kernel.instructions else []
    while pending:
        _follow(kernel, pending, after, calls)
        pending = []
        for routine, places in calls.items():
            for number in _returns(kernel, after, routine):
                after[number] += tuple(place for place in dict.fromkeys(places) if place not in after[number])
                pending += [place for place in places if place not in after]
    return after


def _follow(kernel: Kernel, pending: list[int], after: dict[int, tuple[int, ...]], calls: dict[int, list[int]]) -> None:
    """Add what is reached from `pending`; what leads behind the function's end is not followed."""
    instructions, end = kernel.instructions, len(kernel.instructions)
    while pending:
        number = pending.pop()
        while number not in after and instructions[number].mnemonic not in _JUMPS and number + 1 < end:
            after[number] = (number + 1,)
            number += 1
        if number not in after:
            found = _next(kernel, instructions[number], calls)
            after[number] = tuple(place for place in dict.fromkeys(found) if 0 <= place < end)
            pending += after[number]


def _next(kernel: Kernel, instruction: Instruction, calls: dict[int, list[int]]) -> tuple[int, ...]:
    """What may be executed after an instruction; that behind a call comes by the routine's return."""
    mnemonic, through = instruction.mnemonic, (instruction.number + 1,)
    if instruction.guard == "never" or (mnemonic not in _ENDS and mnemonic != "CALL"):
        return through
    stays = through if instruction.guard or _conditional(instruction) else ()
    if mnemonic in _INDIRECT:
        listed = kernel.code.branches.get(instruction.address)
        if listed is None:
            kernel.unfollowed.append((instruction.address, f"no list of the targets of {instruction}"))
        return (*stays, *(place // BYTES for place in listed or ()))
    if mnemonic not in ("BRA", "JMP", "CALL"):
        return stays
    to = target(instruction)
    if to is None or instruction.address in kernel.code.relocated or not 0 <= to < len(kernel.instructions):
        kernel.unfollowed.append((instruction.address, f"{instruction} leads out of the function"))
        return through if mnemonic == "CALL" else stays
    if mnemonic == "CALL":
        calls.setdefault(to, []).append(instruction.number + 1)
    return (*stays, to)


def _conditional(instruction: Instruction) -> bool:
    """Whether a branch has a condition beside its guard: BRA P1, 0x480; BRA.DIV UR4, 0x480."""
    return any(operand.kind in ("P", "UP", "UR", "R") and operand.mask for operand in instruction.operands[:-1])


def _returns(kernel: Kernel, after: dict[int, tuple[int, ...]], routine: int) -> list[int]:
    """The returns of a routine: those that it reaches, past calls of other routines."""
    seen, pending, found = set[int](), [routine], list[int]()
    while pending:
        number = pending.pop()
        if number in seen or number not in after:
            continue
        seen.add(number)
        instruction = kernel.instructions[number]
        if instruction.mnemonic == "RET" and instruction.guard != "never":
            found.append(number)
            pending += [number + 1] if instruction.guard else []
        else:
            pending += (number + 1,) if instruction.mnemonic == "CALL" else after[number]
    return found


def _blocks(successors: dict[int, tuple[int, ...]]) -> tuple[Block, ...]:
    if not successors:
        return ()
    leaders = {0} | {j for index, others in successors.items() if others != (index + 1,) for j in others}
    leaders |= {index for index in successors if index - 1 not in successors}
    leaders |= {index + 1 for index, others in successors.items() if others != (index + 1,) and index + 1 in successors}
    order = sorted(leaders)
    number = {first: n for n, first in enumerate(order)}
    blocks = []
    for n, first in enumerate(order):
        end, most = first + 1, order[n + 1] if n + 1 < len(order) else max(successors) + 1
        while end < most and end in successors:
            end += 1
        blocks.append(Block(first, end, tuple(number[j] for j in successors[end - 1])))
    return tuple(blocks)
