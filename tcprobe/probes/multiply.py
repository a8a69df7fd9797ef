"""The structure tensor of a multiply: which A slot meets which B slot in which D slot.

The hardware knows no rows and columns, only which slots meet, so nothing about a layout is assumed here.
Of A and B, the operand with fewer slots is `hot`: each of its slots alone is set to one. Meanwhile the other
runs through codes: all one, then for each bit b of a slot's number the image in which slot t holds bit b of
t, last all zero. Where D slot d answers to all ones, hot slot s reaches d; the bits it answers spell the
slot that s meets there. A third dimension of the grid sets C slots one at a time, with A = B = 0.
One and zero are exact in every element type.

`.xor.popc` answers relative to the launch with the hot operand all zero: +1 where the code bit is 0, -1
where it is 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcprobe.errors import ProbeError
from tcprobe.isa.instruction import THREADS, Fragment, Instruction
from tcprobe.probes import ptx
from tcprobe.probes.ptx import Bytes, Kernel, Launch, Multiply
from tcprobe.probes.slots import codes, one_hot, unpack

Slots = NDArray[np.int32]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Structure:
    """Triples (a[j], b[j], d[j]) of slot numbers in which D gains A times B; `c[s]` the D slot of C slot s.

    Sorted by a, then d. A slot in no triple is not read by the instruction.
    """

    a: Slots
    b: Slots
    d: Slots
    c: Slots


def hot_and_coded(instruction: Instruction) -> tuple[Fragment, Fragment]:
    """The operand whose slots are set one at a time, and the one that carries codes."""
    a, b = instruction.fragments[:2]
    return (a, b) if a.elements <= b.elements else (b, a)


def kernel(instruction: Instruction) -> Kernel:
    """Block (x, y, z): hot image x, coded image y, C image z; all registers of D go out raw."""
    fragments = dict(zip("abcd", instruction.fragments, strict=True))
    hot, coded = hot_and_coded(instruction)
    operands = ", ".join(ptx.braces(p, fragments[p]) for p in "dabc")
    body = [
        *(line for p, axis in ((hot.operand, "x"), (coded.operand, "y"), ("c", "z"))
          for line in (*ptx.point(p, f"%{axis}", fragments[p]), *ptx.move("ld", p, p, fragments[p]))),
        f"{instruction.name} {operands};",
        "mad.lo.u32 %image, %z, %ny, %y;",
        "mad.lo.u32 %image, %image, %nx, %x;",
        *ptx.point("d", "%image", fragments["d"]),
        *ptx.move("st", "d", "d", fragments["d"]),
    ]  # fmt: skip
    name = ptx.identifier(instruction.id)
    text = ptx.entry(name, "abcd", [ptx.declare(p, fragments[p]) for p in "abcd"], body)
    return Kernel(name, Multiply(instruction), text, instruction.target.at_least(ptx.ALIGNED))


def launches(instruction: Instruction) -> tuple[Launch, Launch]:
    """The structure launch (hot x codes) and the C launch (C one slot at a time)."""
    text = kernel(instruction)
    hot, coded = hot_and_coded(instruction)
    c, d = instruction.fragments[2:]
    images = {hot.operand: _one_hot(hot), coded.operand: _codes(coded), "c": _one_hot(c)}
    zero = {operand: np.zeros((1, image.shape[1]), np.uint8) for operand, image in images.items()}
    grid, size = (len(images[hot.operand]), len(images[coded.operand]), 1), THREADS * ptx.thread_bytes(d)
    return (
        Launch(text, grid, (images["a"], images["b"], zero["c"]), 0, grid[0] * grid[1] * size),
        Launch(text, (1, 1, len(images["c"])), (zero["a"], zero["b"], images["c"]), 0, len(images["c"]) * size),
    )


def decode(instruction: Instruction, structure_raw: Bytes, c_raw: Bytes) -> Structure:
    """The structure tensor from the outputs of the two `launches`.

    ProbeError where an answer is not one that a single product of zeros and ones can give, or the number
    of triples is not m x n x k times the number of products.
    """
    hot, coded = hot_and_coded(instruction)
    d = instruction.fragments[3]
    width = THREADS * d.elements
    answers = unpack(structure_raw[None], d.slot_bits).reshape(-1, 1 + THREADS * hot.elements, width)
    reached, bits = (_bits_xor if instruction.bit_op == "xor" else _bits)(instruction, answers)
    hot_slots, d_slots = np.divmod(reached, width)
    met = (bits << np.arange(len(bits), dtype=np.int32)[:, None]).sum(axis=0)
    _check_count(instruction, len(met), int(met.max(initial=0)), THREADS * coded.elements)
    slots = {hot.operand: hot_slots, coded.operand: met}
    order = np.lexsort((d_slots, slots["a"]))
    a, b, d_sorted = (x[order].astype(np.int32) for x in (slots["a"], slots["b"], d_slots))
    return Structure(a, b, d_sorted, _decode_c(instruction, unpack(c_raw[None], d.slot_bits).reshape(-1, width)))


def _one_hot(fragment: Fragment) -> Bytes:
    return one_hot(THREADS * fragment.elements, fragment.slot_bits, fragment.one)


def _codes(fragment: Fragment) -> Bytes:
    return codes(THREADS * fragment.elements, fragment.slot_bits, fragment.one)


def _bits(instruction: Instruction, answers: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The (hot slot, D slot) that answer to all ones, as flat numbers, and what they answer to each bit."""
    hit = answers == instruction.fragments[3].one
    if np.count_nonzero(hit) != np.count_nonzero(answers):
        _refuse(instruction, hit == (answers != 0), answers)
    reached = np.flatnonzero(hit[0, 1:])
    spoken = hit[:, 1:].reshape(len(hit), -1)[:, reached]
    if np.count_nonzero(spoken) != np.count_nonzero(hit) or spoken[-1].any():
        raise ProbeError(f"{instruction.name}: D answers where A or B is zero, or where all ones gave nothing.")
    return reached, spoken[1:-1].astype(np.int32)


def _bits_xor(instruction: Instruction, answers: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """As `_bits`, from the change against the launch with the hot operand all zero (image 0)."""
    change = (answers[:, 1:] - answers[:, :1]).reshape(len(answers), -1)
    reached = np.flatnonzero(change[0])
    spoken = change[:, reached].astype(np.int32)
    fits = np.abs(spoken) == 1
    if np.count_nonzero(change) != spoken.size or not fits.all() or (spoken[0] > 0).any() or (spoken[-1] < 0).any():
        _refuse(instruction, fits, spoken)
    return reached, (spoken[1:-1] < 0).astype(np.int32)


def _refuse(instruction: Instruction, fits: NDArray[Any], answers: NDArray[Any]) -> None:
    wrong = np.argwhere(~fits)
    first = f", first at {wrong[0].tolist()}: raw value {int(answers[tuple(wrong[0])]):#x}" if len(wrong) else ""
    raise ProbeError(
        f"{instruction.name}: not a sum of single products: {len(wrong)} of {fits.size} answers are none that one "
        f"A slot times one B slot can give{first}."
    )


def _check_count(instruction: Instruction, found: int, largest: int, slots: int) -> None:
    shape = instruction.shape
    needed = shape.m * shape.n * shape.k * instruction.products
    if found != needed or largest >= slots:
        raise ProbeError(
            f"{instruction.name}: the structure tensor has {found} triples where {instruction.products} product(s) "
            f"of {shape} have {needed}; largest slot met {largest} of {slots}."
        )


def _decode_c(instruction: Instruction, answers: NDArray[Any]) -> Slots:
    """The D slot that each C slot reaches; every D slot must be reached once, every C slot reach one."""
    hit = answers[1:] == instruction.fragments[3].one
    lone = (hit.sum(axis=0) == 1).all() and (hit.sum(axis=1) == 1).all()
    if not lone or np.count_nonzero(hit) != np.count_nonzero(answers):
        raise ProbeError(
            f"{instruction.name}: C does not reach D slot by slot: {np.count_nonzero(answers)} answers from "
            f"{hit.shape[0]} C slots to {hit.shape[1]} D slots."
        )
    reached: Slots = hit.argmax(axis=1).astype(np.int32)
    return reached
