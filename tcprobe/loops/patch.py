"""A kernel's machine code without one class of its main loop's instructions.

An instruction whose guard is false takes its pipe as long as one that is executed: on an H200, loops of HMMA, MUFU,
IMAD, conversions and shuffles take the same cycles with @!PT before each, and of loads and stores a quarter is left.
So an instruction that is patched away becomes the cheapest that there is, FILLER, with its own stall count and waits:
one issue slot (benchmarks/micro_loops.py). A barrier that it set is set by nobody, and nobody waits for it.

What addresses, branches and waits depend on stays, and what the file does not show to be free of that: a loop that ran
on without them would run elsewhere, or for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from tcprobe.isa.opcodes import mnemonics, opcode, rows
from tcprobe.loops.loop import Loop
from tcprobe.sass.decode import Form, union
from tcprobe.sass.flow import backward
from tcprobe.sass.frame import reads, writes
from tcprobe.sass.kernel import BYTES, Instruction, Kernel, target
from tcprobe.sass.registers import guard_mask

MEMORY = ("shared-loads", "shared-stores", "copies", "global-stores", "local", "barriers")
FLOATING = ("multiplies", "special-functions", "fp32", "fp16", "fp64", "conversions")
CLASSES = tuple(dict.fromkeys(row.ablated for row in rows() if row.ablated))
# whose result is all that they do: they are needed where their result is
_COMPUTES = mnemonics(lambda row: bool(row.ablated) and row.ablated not in MEMORY)
_FLOATING = mnemonics(lambda row: row.ablated in FLOATING)
_BULK = mnemonics(lambda row: row.kind == "copy" and row.proxy == "async" and "shared" in row.writes)
GUARD, ALWAYS, OFF = 1, 0x70, 0xF0  # the byte whose upper half is the guard; PT and !PT there
FFMA, NOP = 0xFF << 64 | 0xFFFFFFF223, 0xF918  # @!PT FFMA RZ, RZ, RZ, RZ; @!PT NOP
FILLER = FFMA
KEPT = 0x3F << 116 | 0x1F << 105  # waits, yield and stall count
NO_BARRIERS = 0x3F << 110
DATA = 4  # the byte of the register that an arrival takes its count of bytes from
RZ = 0xFF


class Patch(NamedTuple):
    """Numbers of instructions: those that are filled, of `all` of the class; `expects`, arrivals that then expect no
    bytes; branches that are `never` taken, and `always`.
    """

    name: str
    off: tuple[int, ...]
    all: int
    expects: tuple[int, ...] = ()
    never: tuple[int, ...] = ()
    always: tuple[int, ...] = ()


def class_of(instruction: Instruction) -> str:
    """The class of an instruction; "" of one that is never patched away."""
    return opcode(instruction.mnemonic).ablated


def patches(loop: Loop) -> list[Patch]:
    """The classes of a loop, each with what can be patched away of it: maybe nothing.

    The bulk copies that fill a loop's shared memory may be those of another warp, in a loop of its own: theirs count.
    """
    kernel = loop.kernel
    needed = _needed(kernel)
    sources = {kernel.instructions[number].mnemonic for number in needed}
    inside = {instruction.number for instruction in loop.instructions}
    bulk = _in_loops(kernel, _BULK)
    found: dict[str, list[int]] = {}
    for number in sorted(inside | bulk):
        instruction = kernel.instructions[number]
        if name := class_of(instruction) if instruction.guard != "never" else "":
            found.setdefault(name, []).append(number)
    made = []
    for name in CLASSES:
        numbers = found.get(name, [])
        kept = {n for n in numbers if sources.intersection(_read_by(kernel.instructions[n].mnemonic))}
        off = tuple(n for n in numbers if n not in needed and n not in kept)
        if numbers:
            made.append(Patch(name, off, len(numbers), _arrivals(kernel) if bulk.intersection(off) else ()))
    return made


@cache
def _read_by(mnemonic: str) -> frozenset[str]:
    """The loads from where a store or copy writes: where one of these decides an address or a branch, it stays."""
    row = opcode(mnemonic)
    spaces = {"shared"} if "shared" in row.writes else set(row.writes)
    if not (row.stores or (row.kind == "copy" and "shared" in spaces)):
        return frozenset()
    loads = (one for one in rows() if one.kind in ("load", "matrix move") and not one.outputs and not one.proxy)
    return frozenset(one.opcode for one in loads if {*spaces, "generic"}.intersection(one.reads))


def _in_loops(kernel: Kernel, mnemonics: frozenset[str]) -> set[int]:
    """The instructions of these mnemonics in any loop of a kernel."""
    if mnemonics.isdisjoint(kernel.mnemonics):
        return set()
    blocks = frozenset().union(*kernel.loops)
    return {
        i.number for i in kernel.instructions if i.mnemonic in mnemonics and kernel.block_of.get(i.number) in blocks
    }


def _arrivals(kernel: Kernel) -> tuple[int, ...]:
    """The arrivals in loops that announce bytes of copies: SYNCS.ARRIVE.TRANS64 with a count in a register."""
    return tuple(
        number
        for number in sorted(_in_loops(kernel, frozenset(("SYNCS",))))
        if kernel.instructions[number].form.modifiers[:2] == ("ARRIVE", "TRANS64")
        and kernel.instructions[number].operands[-1].kind == "R"
        and kernel.instructions[number].operands[-1].first >= 0
    )


def one_round(loop: Loop) -> Patch | None:
    """What makes a loop end with its first round; None where its branches do not show how.

    Where it waits for other warps, their loops end so too.
    """
    kernel, loops = loop.kernel, [loop.blocks]
    if _waits(kernel, loop.blocks):
        outer = [a for a in kernel.loops if not any(a < b for b in kernel.loops)]
        loops += [a for a in outer if _waits(kernel, a) and not a & loop.blocks and len(a) > 1]
    never: list[int] = []
    always: list[int] = []
    for blocks in loops:
        back, out = _ways(Loop(kernel, blocks))
        if back and all(kernel.instructions[number].guard for number in back):
            never += back
        elif out:
            always.append(out[0])
        else:
            return None
    return Patch("one round", (), 0, (), tuple(never), tuple(always))


def _waits(kernel: Kernel, blocks: frozenset[int]) -> bool:
    """Whether a loop's warps wait at barriers in shared memory."""
    return any(
        kernel.instructions[j].mnemonic == "SYNCS" and kernel.instructions[j].form.has("TRYWAIT")
        for number in blocks
        for j in range(kernel.blocks[number].first, kernel.blocks[number].end)
    )


def _ways(loop: Loop) -> tuple[list[int], list[int]]:
    """The branches of a loop that lead back to its first instruction, and the guarded ones that leave it."""
    kernel, back, out = loop.kernel, [], []
    for number in sorted(loop.blocks):
        last = kernel.instructions[kernel.blocks[number].end - 1]
        to = target(last) if last.opcode in ("BRA", "BRA.U") and last.guard != "never" else None
        if to is None:
            continue
        if BYTES * to == loop.first:
            back.append(last.number)
        elif last.guard and kernel.block_of.get(to) not in loop.blocks:
            out.append(last.number)
    return back, out


class _Live(NamedTuple):
    """Registers that count: whatever holds, and by guard those that count where it is true."""

    always: int
    under: tuple[tuple[str, int], ...] = ()

    @property
    def all(self) -> int:
        """Those that count somehow."""
        mask = self.always
        for _, registers in self.under:
            mask |= registers
        return mask


def _needed(kernel: Kernel) -> frozenset[int]:
    """The instructions whose results an address, a branch or a wait depends on.

    Floating-point data that only choose a way within a loop are not needed: either way is one that the code may take.
    """
    whole = _called(kernel)
    inner = {number for number in whole.successors if _chooses(whole, whole.instructions[number])}
    addresses = _decide(whole, lambda i: 0 if i.number in inner else _roots(i.form), frozenset())
    ways = _decide(whole, lambda i: i.form.reads if i.number in inner else 0, _FLOATING)
    return addresses | ways


def _called(kernel: Kernel) -> Kernel:
    """The same in which a call leads on, and a routine nowhere: a return would lead behind every call."""
    made = replace(kernel)
    made.successors = {
        number: (number + 1, *others)
        if instruction.mnemonic == "CALL"
        else ()
        if instruction.mnemonic == "RET"
        else others
        for number, others in kernel.successors.items()
        if (instruction := kernel.instructions[number])
    }
    return made


def _chooses(kernel: Kernel, branch: Instruction) -> bool:
    """Whether it is a branch forward whose ways are both in the loops that it is in."""
    to = target(branch) if branch.mnemonic == "BRA" else None
    if to is None or to <= branch.number or not branch.guard:
        return False
    block, after = kernel.block_of[branch.number], kernel.block_of.get(to)
    return all(after in loop for loop in kernel.loops if block in loop)


def _decide(kernel: Kernel, roots: Callable[[Instruction], int], free: frozenset[str]) -> frozenset[int]:
    """The instructions on whose results the registers `roots` depend, but for those whose mnemonics are `free`."""

    def before(live: _Live, instruction: Instruction) -> _Live:
        return _before(live, instruction, roots(instruction), instruction.mnemonic in free)

    ends, found = backward(kernel, _Live(0), before, _joined), set()
    for number, block in enumerate(kernel.blocks):
        live = ends.get(number, _Live(0))
        for index in reversed(range(block.first, block.end)):
            instruction = kernel.instructions[index]
            if instruction.mnemonic not in free and writes(instruction.form) & live.all:
                found.add(index)
            live = before(live, instruction)
    return frozenset(found)


def _joined(one: _Live, other: _Live) -> _Live:
    under = dict(one.under)
    for guard, registers in other.under:
        under[guard] = under.get(guard, 0) | registers
    return _Live(one.always | other.always, tuple(sorted(under.items())))


def _before(live: _Live, instruction: Instruction, roots: int, free: bool) -> _Live:
    """What counts before an instruction, from what counts after it; nothing that it reads if it is `free`."""
    form = instruction.form
    written = writes(form)
    if form.guard == "never":
        return live
    counts = roots | (reads(form) if written & live.all and not free else 0)
    under = dict(live.under)
    if form.guard:
        always = live.always
        under[form.guard] = under.get(form.guard, 0) & ~written
    else:
        always = live.always & ~written
        under = {guard: registers & ~written for guard, registers in under.items()}
    for guard in [guard for guard in under if guard_mask(guard) & written]:
        always |= under.pop(guard)
    condition = form.guard or _condition(form)
    own = guard_mask(condition)
    always |= counts & own if condition else counts
    if condition:
        under[condition] = under.get(condition, 0) | counts & ~own
    return _Live(always, tuple(sorted((guard, registers & ~always) for guard, registers in under.items())))


def _condition(form: Form) -> str:
    """The predicate without which a comparison is false, whatever it compares: as "P2"; "" where it has none."""
    last = form.operands[-1] if form.operands else None
    if form.mnemonic not in ("ISETP", "FSETP", "UISETP") or not form.has("AND") or last is None or last.first < 0:
        return ""
    return last.text if last.kind in ("P", "UP") and not last.mask & form.writes else ""


def _roots(form: Form) -> int:
    """The registers that count wherever an instruction stands: all but what it computes with, or stores."""
    row = opcode(form.mnemonic)
    if form.mnemonic not in _COMPUTES and not row.stores:
        return form.reads
    guard = form.reads & ~union(form.operands) if row.stores else 0
    kinds = ("address", "descriptor") if row.kind == "multiply" else ("address",)
    return guard | union(operand for operand in form.operands if operand.kind in kinds)


def patched(cubin: bytes, kernel: Kernel, patch: Patch) -> bytes:
    """A cubin whose function `kernel` is patched: no other byte differs."""
    made = bytearray(cubin)
    for number in patch.off:
        place = kernel.code.place + BYTES * number
        own = int.from_bytes(made[place : place + BYTES], "little")
        made[place : place + BYTES] = (FILLER | own & KEPT | NO_BARRIERS).to_bytes(BYTES, "little")
    for number, guard in [*((n, OFF) for n in patch.never), *((n, ALWAYS) for n in patch.always)]:
        place = kernel.code.place + BYTES * number + GUARD
        made[place] = made[place] & 0x0F | guard
    for number in patch.expects:
        made[kernel.code.place + BYTES * number + DATA] = RZ
    return bytes(made)
