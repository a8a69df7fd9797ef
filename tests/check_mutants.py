"""Mutants of right kernels, by kinds that a rule claims to find: an instruction of the machine code is changed, or two.

Two more kinds are made of texts (`retargeted`): a multiply for an arch that emulates it, a loop of mma.sync for an arch
that has wgmma or tcgen05.mma.

The kinds were listed before the rules were tried on them. A mutant that breaks nothing its rules are about is none, and
`harmless` says why.
"""

import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from tcprobe.check.rules import async_proxy, unfinished_copy, wgmma_operands, wgmma_shared
from tcprobe.sass import shared_bytes
from tcprobe.sass.addresses import reaches
from tcprobe.sass.decode import decode
from tcprobe.sass.kernel import Instruction, Kernel
from tcprobe.sass.requests import loop_of

NOP = "NOP"


class Mutant(NamedTuple):
    """A kernel in which instruction `number` is another one."""

    kernel: Kernel
    number: int
    was: str
    now: str


def changed(kernel: Kernel, number: int, text: str) -> Mutant:
    """The kernel with other text in the place of an instruction."""
    was = kernel.instructions[number]
    instructions = list(kernel.instructions)
    instructions[number] = Instruction(number, (form := decode(text)), form.mnemonic)
    made = Kernel(kernel.file, kernel.arch, kernel.code, instructions, kernel.unread, kernel.ptx)
    return Mutant(made, number, str(was), text)


def reached(kernel: Kernel) -> Iterator[Instruction]:
    """Instructions that may be executed."""
    return (i for i in kernel.instructions if i.number in kernel.successors and i.guard != "never")


def wait_dropped(kernel: Kernel) -> Iterator[Mutant]:
    """wgmma.wait_group taken out."""
    for i in reached(kernel):
        if i.opcode == "WARPGROUP.DEPBAR.LE":
            yield changed(kernel, i.number, NOP)


def wait_weakened(kernel: Kernel) -> Iterator[Mutant]:
    """wgmma.wait_group of one group more."""
    for i in reached(kernel):
        if i.opcode == "WARPGROUP.DEPBAR.LE":
            left = wgmma_operands.groups_left(i)
            yield changed(kernel, i.number, f"WARPGROUP.DEPBAR.LE gsb0, {left + 1:#x}")


def running(kernel: Kernel) -> Iterator[tuple[Instruction, wgmma_operands.Multiply]]:
    """(an instruction that writes a register, a multiply that runs there), of straight code behind the multiply."""
    for i in reached(kernel):
        if not i.mnemonic.endswith("GMMA"):
            continue
        for number in range(i.number + 1, min(i.number + 40, len(kernel.instructions))):
            other = kernel.instructions[number]
            if other.opcode.startswith("WARPGROUP") or other.mnemonic in ("BRA", "EXIT", "BSYNC"):
                break
            writes = other.operands and other.operands[0].kind == "R" and other.form.outputs and not other.guard
            if writes and other.mnemonic in ("IMAD", "MOV", "LOP3", "VIADD", "IADD3", "SHF", "LEA", "SEL", "LDS"):
                yield other, wgmma_operands.multiply(i)


def a_reused(kernel: Kernel) -> Iterator[Mutant]:
    """A register of A written while the multiply runs."""
    for i, of in running(kernel):
        if of.a and i.operands[0].width == 1:
            yield changed(kernel, i.number, re.sub(r" R[0-9]+", f" R{wgmma_operands.lowest(of.a)}", str(i), count=1))


def d_read(kernel: Kernel) -> Iterator[Mutant]:
    """A register of D read while the multiply runs."""
    for i, of in running(kernel):
        yield changed(kernel, i.number, f"MOV {i.operands[0].text}, R{wgmma_operands.lowest(of.d) + 1}")


def d_written(kernel: Kernel) -> Iterator[Mutant]:
    """A register of D written while the multiply runs."""
    for i, of in running(kernel):
        yield changed(kernel, i.number, f"MOV R{wgmma_operands.lowest(of.d) + 1}, 0x0")


def fence_dropped(kernel: Kernel) -> Iterator[Mutant]:
    """fence.proxy.async taken out."""
    for i in reached(kernel):
        if i.opcode == "FENCE.VIEW.ASYNC.S" and "MEMBAR" in kernel.instructions[i.number - 1].opcode:
            yield changed(kernel, i.number, NOP)


def copy_wait_dropped(kernel: Kernel) -> Iterator[Mutant]:
    """cp.async.wait_group taken out."""
    for i in reached(kernel):
        if i.opcode == "DEPBAR.LE" and "LDGSTS" in kernel.mnemonics:
            yield changed(kernel, i.number, NOP)


def copy_wait_weakened(kernel: Kernel) -> Iterator[Mutant]:
    """cp.async.wait_group of one group more."""
    for i in reached(kernel):
        if i.opcode == "DEPBAR.LE" and "LDGSTS" in kernel.mnemonics:
            left = next(operand.value for operand in i.operands if operand.kind == "number")
            yield changed(kernel, i.number, f"DEPBAR.LE SB0, {left + 1:#x}")


def copy_barrier_dropped(kernel: Kernel) -> Iterator[Mutant]:
    """The barrier behind cp.async.wait_group taken out."""
    for i in reached(kernel):
        if i.opcode == "DEPBAR.LE" and "LDGSTS" in kernel.mnemonics:
            behind = kernel.instructions[i.number + 1 : i.number + 12]
            barrier = next((each for each in behind if each.opcode.startswith("BAR.SYNC")), None)
            if barrier:
                yield changed(kernel, barrier.number, NOP)


def words_of_descriptors(kernel: Kernel) -> Iterator[tuple[Instruction, int]]:
    """Moves of a constant that is the upper word of a descriptor with a swizzle."""
    for i in reached(kernel):
        if i.mnemonic == "UMOV" and len(i.operands) == 2 and i.operands[1].kind == "number":
            value = i.operands[1].value
            if (
                value >> 30 in (1, 2, 3)
                and 0 < value & 0x3FFF <= 0x400
                and any(s.endswith("GMMA") for s in kernel.mnemonics)
            ):
                yield i, value


def stride_halved(kernel: Kernel) -> Iterator[Mutant]:
    """SBO half of the swizzle's pattern."""
    for i, value in words_of_descriptors(kernel):
        rows = {1: 64, 2: 32, 3: 16}[value >> 30]
        yield changed(kernel, i.number, f"UMOV {i.operands[0].text}, {value & ~0x3FFF | rows // 2:#x}")


def stride_zero(kernel: Kernel) -> Iterator[Mutant]:
    """SBO 0: all groups of eight lines in one place."""
    for i, value in words_of_descriptors(kernel):
        yield changed(kernel, i.number, f"UMOV {i.operands[0].text}, {value & ~0x3FFF:#x}")


def swizzle_lost(kernel: Kernel) -> Iterator[Mutant]:
    """The swizzle's bits taken out of a descriptor."""
    for i, value in words_of_descriptors(kernel):
        yield changed(kernel, i.number, f"UMOV {i.operands[0].text}, {value & 0x3FFFFFFF:#x}")


def lanes_parted(kernel: Kernel) -> Iterator[Mutant]:
    """A condition on a whole number of warps made one on parts of a warp."""
    for i in reached(kernel):
        if i.mnemonic == "ISETP" and i.operands[-2].kind == "number" and i.operands[-2].value in (32, 64, 128, 256):
            tid = any(
                each.mnemonic == "S2R" and each.operands[1].text == "SR_TID.X" and each.writes & i.reads
                for each in kernel.instructions[: i.number]
            )
            if tid and i.guard == "":
                yield changed(kernel, i.number, str(i).replace(i.operands[-2].text, f"{i.operands[-2].value - 16:#x}"))


def in_loops(kernel: Kernel) -> Iterator[Instruction]:
    """Instructions of innermost loops."""
    return (i for i in reached(kernel) if loop_of(kernel, i) is not None)


def narrowed(kernel: Kernel) -> Iterator[Mutant]:
    """Of a load or store of global memory of 8 or 16 bytes a lane, its first word."""
    for i in reached(kernel):
        if i.mnemonic in ("LDG", "STG") and {"64", "128"} & set(i.form.modifiers):
            opcode = ".".join(part for part in i.opcode.split(".") if part not in ("64", "128"))
            yield changed(kernel, i.number, str(i).replace(i.opcode, opcode))


def wait_strengthened(kernel: Kernel) -> Iterator[Mutant]:
    """wgmma.wait_group N of some groups made one for all."""
    for i in reached(kernel):
        if i.opcode == "WARPGROUP.DEPBAR.LE" and wgmma_operands.groups_left(i):
            yield changed(kernel, i.number, "WARPGROUP.DEPBAR.LE gsb0, 0x0")


def waited_for_alone(kernel: Kernel) -> Iterator[Mutant]:
    """A multiply in a loop, not the last of its group, made a group that is waited for at once."""
    for i in in_loops(kernel):
        if i.mnemonic.endswith("GMMA") and not wgmma_operands.commits(i):
            behind = kernel.instructions[i.number + 1]
            if not behind.mnemonic.endswith("GMMA") and behind.mnemonic not in ("BRA", "EXIT", "WARPGROUP"):
                own = changed(kernel, i.number, f"{i}, gsb0").kernel
                yield changed(own, behind.number, "WARPGROUP.DEPBAR.LE gsb0, 0x0")


def kept_on_the_stack(kernel: Kernel) -> Iterator[Mutant]:
    """A move between registers in a loop made a store to the stack, or a load from it."""
    for i in in_loops(kernel):
        if i.mnemonic == "MOV" and [o.kind for o in i.operands] == ["R", "R"] and not kernel.mnemonics & {"LDL", "STL"}:
            yield changed(kernel, i.number, f"STL [R1+0x8], {i.operands[1].text}")
            yield changed(kernel, i.number, f"LDL {i.operands[0].text}, [R1+0x8]")


def registers_raised(kernel: Kernel) -> Iterator[Mutant]:
    """One register more than as many as let another block on an SM."""
    threads = int(np.prod(kernel.code.threads)) if kernel.code.threads else kernel.code.most_threads
    for blocks in (2, 3, 4) if threads else ():
        registers = 65536 // (blocks * -(-threads // 32) * 32) // 8 * 8
        if 24 <= registers < 255:
            code = dataclasses.replace(kernel.code, registers=registers + 1)
            made = Kernel(kernel.file, kernel.arch, code, kernel.instructions, kernel.unread, kernel.ptx)
            yield Mutant(made, 0, f"{registers} registers", f"{registers + 1} registers")


WAITS = ("wgmma-operands", "wgmma-shared")  # what is in flight reads registers and shared memory
KINDS: dict[str, tuple[tuple[str, ...], Callable[[Kernel], Iterator[Mutant]]]] = {
    "a wait for wgmma dropped": (WAITS, wait_dropped),
    "a wait for wgmma weakened": (WAITS, wait_weakened),
    "a register of A reused early": (("wgmma-operands",), a_reused),
    "a register of D read early": (("wgmma-operands",), d_read),
    "a register of D written early": (("wgmma-operands",), d_written),
    "a proxy fence dropped": (("async-proxy", "cp-async-proxy"), fence_dropped),
    "a wait for cp.async dropped": (("unfinished-copy",), copy_wait_dropped),
    "a wait for cp.async weakened": (("unfinished-copy",), copy_wait_weakened),
    "the barrier behind a wait for cp.async dropped": (("unfinished-copy",), copy_barrier_dropped),
    "SBO halved": (("descriptor",), stride_halved),
    "SBO 0": (("descriptor",), stride_zero),
    "a descriptor's swizzle lost": (("descriptor",), swizzle_lost),
    "a condition on warps made one on lanes": (("partial-warp",), lanes_parted),
    "an access of global memory made one of its first word": (("sectors",), narrowed),
    "a wait that leaves groups of wgmma made one for all": (("serialised",), wait_strengthened),
    "a wgmma made a group that is waited for at once": (("serialised",), waited_for_alone),
    "a move in a loop made one to or from the stack": (("spills",), kept_on_the_stack),
    "a register more than lets another block on an SM": (("registers",), registers_raised),
}


def harmless(kernel: Kernel, kind: str, mutant: Mutant) -> str:
    """Why a mutant breaks nothing that the rule of its kind is about; "" where it does."""
    was = kernel.instructions[mutant.number]
    return next((why for words, test, why in HARMLESS if words in kind and test(kernel, was)), "")


def _up_to(kernel: Kernel, start: int, last: Callable[[Instruction], bool]) -> Iterator[Instruction]:
    """Every instruction that some way from one comes by, up to the first on it that is a last one, which counts too."""
    pending, seen = list(kernel.successors.get(start, ())), set[int]()
    while pending:
        at = pending.pop()
        if at not in seen:
            seen.add(at)
            yield kernel.instructions[at]
            if not last(kernel.instructions[at]):
                pending += kernel.successors.get(at, ())


Groups = tuple[frozenset[int], ...]  # multiplies that run: groups that were committed, oldest first, then the open one


def _clash(kernel: Kernel, i: Instruction, running: Groups) -> bool:
    """Whether an instruction touches a register of a multiply that runs; accumulating on by the same shape is none.

    Who fills shared memory, or arrives at a barrier, may touch a tile that it reads.
    """
    for number in frozenset[int]().union(*running):
        if shared_bytes.reads_tiles(kernel.instructions[number]) and (
            shared_bytes.writes_tiles(i) or i.opcode.startswith(wgmma_shared.ARRIVES)
        ):
            return True
        of = wgmma_operands.multiply(kernel.instructions[number])
        if not i.mnemonic.endswith("GMMA"):
            if i.writes & (of.a | of.d) or i.reads & of.d:
                return True
            continue
        own = wgmma_operands.multiply(i)
        goes_on = (own.d, own.shape) == (of.d, of.shape)
        if own.a & of.d or own.d & of.a or (own.d & of.d and not goes_on):
            return True
    return False


def _nothing_touched(kernel: Kernel, was: Instruction) -> bool:
    """Without the wait nothing of a running multiply is touched: every way is walked by itself, none are joined.

    A weaker wait ends more than none, so what holds without it holds for that, too.
    """
    empty: Groups = (frozenset(),)
    pending, seen = [(kernel.blocks[0].first, empty)], set[tuple[int, Groups]]()
    while pending:
        at, running = pending.pop()
        if (at, running) in seen:
            continue
        seen.add((at, running))
        i = kernel.instructions[at]
        if _clash(kernel, i, running):
            return False
        left = None if at == was.number else wgmma_operands.groups_left(i)
        after = running
        if i.mnemonic.endswith("GMMA"):
            after = (*running[:-1], running[-1] | {at})
            if wgmma_operands.commits(i):
                after = (*after, frozenset())
                if len(after) > wgmma_operands.MOST_GROUPS + 1:
                    after = (after[0] | after[1], *after[2:])
        elif left is not None:
            after = (*running[:-1][max(len(running) - 1 - left, 0) :], running[-1])
        ways = (running, after) if i.guard else (after,)
        pending += [(to, way) for to in kernel.successors.get(at, ()) for way in ways]
    return True


def _fenced_again(kernel: Kernel, was: Instruction) -> bool:
    """On every way to what reads shared memory another fence comes first."""
    behind = _up_to(kernel, was.number, lambda i: async_proxy.fences(i) and not i.guard)
    return not any(async_proxy.reads_shared(i) for i in behind)


def _for_barriers(kernel: Kernel, was: Instruction) -> bool:
    before = reversed(kernel.instructions[max(0, was.number - 60) : was.number])
    first = next(
        (i.mnemonic for i in before if i.mnemonic in ("STS", "STSM", "LDGSTS", "SYNCS") and i.guard != "never"), ""
    )
    return first == "SYNCS"


def _another_tile(kernel: Kernel, was: Instruction) -> bool:
    places = [
        (was.operands[0].first - operand.first, operand.text)
        for i in kernel.instructions
        for operand in i.operands
        if operand.text.startswith("gdesc[")
    ]
    return any((place == 1 and "tnspA" in text) or (place == 3 and "tnspB" in text) for place, text in places)


def _stored_anew(kernel: Kernel, was: Instruction) -> bool:
    behind = kernel.instructions[was.number + 1 :]
    first = next(
        (i.mnemonic for i in behind if i.mnemonic in ("LDS", "LDSM", "STS", "STSM") and i.guard != "never"), ""
    )
    return first in ("STS", "STSM")


def _as_few(was: Instruction) -> Callable[[Instruction], bool]:
    """Whether an instruction waits for as few groups of copies as one that is changed."""
    left = unfinished_copy.left_by(was) or 0
    return lambda i: (own := unfinished_copy.left_by(i)) is not None and 0 <= own <= left


def _waited_before(kernel: Kernel, was: Instruction) -> bool:
    """On every way to a wait another one for as few groups stands before it, with none committed since: it ends none.

    Of a wait for all, with no copy since.
    """
    few, more = _as_few(was), "LDGDEPBAR" if unfinished_copy.left_by(was) else "LDGSTS"
    before: dict[int, list[int]] = {}
    for number, after in kernel.successors.items():
        for other in after:
            before.setdefault(other, []).append(number)
    pending, seen = list(before.get(was.number, ())), set[int]()
    while pending:
        at = pending.pop()
        if at in seen or (few(kernel.instructions[at]) and at != was.number):
            continue
        seen.add(at)
        if kernel.instructions[at].mnemonic == more or at == 0:
            return False
        pending += before.get(at, ())
    return True


def _waited_again(kernel: Kernel, was: Instruction) -> bool:
    """On every way to a read of shared memory another wait for as few groups comes first, or it ends none."""
    behind = list(_up_to(kernel, was.number, _as_few(was)))
    return _waited_before(kernel, was) or not any(unfinished_copy.reads_shared(i) for i in behind)


def _barrier_of_no_wait(kernel: Kernel, was: Instruction) -> bool:
    """The wait before a barrier ends no group: the barrier is there for what is filled next."""
    before = reversed(kernel.instructions[max(0, was.number - 12) : was.number])
    wait = next(i for i in before if i.opcode == "DEPBAR.LE")
    return _waited_before(kernel, wait)


def _no_lane(kernel: Kernel, was: Instruction) -> bool:
    """No lane takes part; by the walk that the rule itself rests on, so read by hand where it says so: ptxas unrolls
    the loops that fill a tile by four, which leaves no round for the bodies that it adds for the rest."""
    return not any(reach.active.any() for reach in reaches(kernel) if reach.instruction.number == was.number)


HARMLESS = (
    ("wait for wgmma", _nothing_touched, "on no way what the multiplies that run read or write is touched without it"),
    ("fence", _fenced_again, "another fence comes before what reads"),
    ("fence", _for_barriers, "it is for mbarriers that were made, not for data"),
    ("swizzle lost", _another_tile, "with lines contiguous it is the descriptor of another tile"),
    ("a wait for cp.async", _waited_again, "another wait for as few groups stands beside it"),
    ("barrier behind", _barrier_of_no_wait, "the wait before it ends no group: it is for what is filled next"),
    ("of global memory", _no_lane, "no lane takes part: a body of an unrolled loop that no thread comes to"),
    ("a wait for cp.async", _stored_anew, "shared memory is filled anew behind it, and the copies are not read"),
)
