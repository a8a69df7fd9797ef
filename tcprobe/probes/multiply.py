"""The structure tensor of a multiply: which A slot meets which B slot in which D slot.

The hardware has no numbers of rows and columns; it only defines which slots meet. So nothing about a layout is assumed.
Of A and B, the operand with fewer slots is `hot`: one of its slots at a time is one. Meanwhile the other operand runs
through codes: all ones; for each bit b of a slot's number, the image in which slot t holds bit b of t; all zeros. If D
slot d answers to all ones, hot slot s reaches d; its answers to the bits encode the slot that s meets there. The third
dimension of the grid sets one C slot at a time, with A = B = 0. One and zero are exact in every element type.

Answers of `.xor.popc` are relative to the launch with the hot operand all zero: +1 where the code bit is 0, -1 where it
is 1.

Tables are numbered by memory, by a reference, or by rule:

- The fragments of wmma.mma are anchored in memory. Its structure tensor must be the one that the tables of load and
  store predict. It also shows which slots it reads, where an element has several.
- For other multiplies, each reference predicts a structure tensor. The first that is equal, triple by triple, gives the
  numbers. If none is, rows, columns and k are numbered by rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tcprobe.errors import ProbeError
from tcprobe.isa import inventory
from tcprobe.isa.arch import Arch
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import INPUTS, MATRICES, MULTIPLIED, WHOLE
from tcprobe.layout.arrays import Array, Bytes, Ints
from tcprobe.layout.structure import Triples, agreement, elements, number
from tcprobe.layout.table import Table, Tables, slot_table
from tcprobe.probes import ptx
from tcprobe.probes.experiment import OWN_RULE, Conclusion, Context, FormExperiment, Readout, stated_tables
from tcprobe.probes.ptx import EmulatedCore, FormOp, Kernel, Launch
from tcprobe.probes.slots import codes, encode, from_slots, into_slots, one_hot, unpack
from tcprobe.store.finding import MEMORY


def _by_anchors(instruction: Instruction, triples: Triples, c_to_d: Ints, context: Context) -> Tables:
    known_tables = {f.operand: context.known_table(f) for f in instruction.fragments}
    tables = {operand: table for operand, table in known_tables.items() if table is not None}
    missing = [f.id for f in instruction.fragments if f.operand not in tables]
    if missing:
        raise ProbeError(f"{instruction.name}: nothing to compare with, since {', '.join(missing)} was not measured.")
    agreed = agreement(instruction, triples, tables)
    if not agreed.total:
        raise ProbeError(
            f"{instruction.name}: the structure tensor is not the one that wmma.load and wmma.store predict: "
            f"{agreed.matched} of {agreed.needed} triples agree; {'; '.join(agreed.first)}."
        )
    if not _c_agrees(tables, c_to_d):
        raise ProbeError(f"{instruction.name}: C slots do not reach the D slots that load.c and store.d predict.")
    return tables


def _by_reference(instruction: Instruction, triples: Triples, c_to_d: Ints, device: Arch) -> tuple[Tables, str]:
    for name, stated in stated_tables([f for f in instruction.fragments if f.role in WHOLE], device):
        if agreement(instruction, triples, stated).total and _c_agrees(stated, c_to_d):
            return stated, name
    tables = number(instruction, triples)
    d, c = tables["d"], instruction.fragment("c")
    values = {name: tuple(column[t] for t in c_to_d.tolist()) for name, column in d.values.items()}
    return tables | {"c": slot_table(c.threads, c.elements, values)}, OWN_RULE


def _c_agrees(tables: Tables, c_to_d: Ints) -> bool:
    return bool((elements(tables["c"]) == elements(tables["d"])[:, c_to_d]).all())


def _unread(instruction: Instruction, triples: Triples) -> dict[str, tuple[tuple[int, ...], ...]]:
    """By operand with slots in no triple: their i, lane by lane."""
    unread = {}
    for fragment, slots in zip(instruction.factors, (triples.a, triples.b), strict=True):
        read = np.zeros(fragment.slots, bool)
        read[slots] = True
        if not read.all():
            lanes = ~read.reshape(fragment.threads, fragment.elements)
            unread[fragment.operand] = tuple(tuple(np.flatnonzero(lane).tolist()) for lane in lanes)
    return unread


class Multiply(FormOp):
    """The op D = A x B + C. Machine code does not show what a tensor core does."""

    def emulate(self, launch: Launch, tables: EmulatedCore) -> Bytes:
        """Multiplies zeros and ones; probes send nothing else."""
        row = self.instruction
        fragments = (row.fragment(o) for o in INPUTS)
        a, b, c = (_matrices(f, raw, tables.read(f)) for f, raw in zip(fragments, launch.inputs, strict=True))
        product = np.einsum("xpmk,ypkn->yxpmn", a, b, optimize=True)
        if row.bit_op == "xor":  # popc(a ^ b) = a + b - 2ab
            product = a.sum(3)[None, :, :, :, None] + b.sum(2)[:, None, :, None, :] - 2 * product
        if hot_and_coded(row)[0].operand == "b":
            product = product.swapaxes(0, 1)
        d = product[None] + c[:, None, None]
        of_d = row.fragment("d")
        slots = into_slots(tables.table(of_d), of_d, d.reshape(-1, of_d.products * of_d.rows * of_d.cols))
        return encode(slots, of_d.type, of_d.slot_bits).reshape(-1)


def _matrices(fragment: Fragment, raw: Bytes, table: Table) -> NDArray[np.float32]:
    """Slots as matrices (images, products, rows, cols); of an element's holders the last one counts."""
    ones = unpack(raw, fragment.slot_bits) == fragment.one
    size = (len(raw), fragment.products, fragment.rows, fragment.cols)
    return from_slots(table, fragment, ones.astype(np.float32)).reshape(size)


@dataclass(frozen=True)
class MultiplyExperiment(FormExperiment):
    """The structure tensor of an mma or wmma.mma."""

    @property
    def group(self) -> str:
        """ "wmma.mma", or the family."""
        return "wmma.mma" if self.instruction.definitions else self.instruction.family

    def launches(self) -> tuple[Launch, Launch]:
        """The structure launch and the C launch."""
        return launches(self.instruction)

    def decode(self, launches: Sequence[Launch], outputs: Sequence[Bytes]) -> Readout:
        """As `decode`."""
        return decode(self.instruction, *outputs)

    def conclude(self, reading: Readout, context: Context) -> Conclusion:
        """Tables that predict the structure tensor; ProbeError if it is no matrix product, or against what is known."""
        row, c_to_d = self.instruction, reading["c"].astype(np.int64)
        triples = Triples(*(reading[operand].astype(np.int64) for operand in MULTIPLIED))
        if row.definitions:
            tables, numbering = _by_anchors(row, triples, c_to_d, context), MEMORY
        else:
            tables, numbering = _by_reference(row, triples, c_to_d, context.device)
        return Conclusion(tables, numbering, triples.digest(), _unread(row, triples))


def experiments() -> list[MultiplyExperiment]:
    """One experiment for each dense warp-level multiply: wmma.mma and mma.sync."""
    return [MultiplyExperiment(row) for row in inventory.of_family("wmma", "mma")]


def hot_and_coded(instruction: Instruction) -> tuple[Fragment, Fragment]:
    """(the operand whose slots are one, one at a time; the operand that runs through codes)."""
    a, b = instruction.factors
    return (a, b) if a.elements <= b.elements else (b, a)


def kernel(instruction: Instruction) -> Kernel:
    """Block (x, y, z): hot image x, coded image y, C image z; all registers of D are stored raw."""
    fragments = {f.operand: f for f in instruction.fragments}
    hot, coded = hot_and_coded(instruction)
    body = [
        *ptx.load_images(fragments, {hot.operand: "%x", coded.operand: "%y", "c": "%z"}),
        *ptx.set_to_one(instruction.scales),
        ptx.instruction_text(instruction),
        "mad.lo.u32 %image, %z, %ny, %y;",
        "mad.lo.u32 %image, %image, %nx, %x;",
        *ptx.point("d", "%image", fragments["d"]),
        *ptx.store("d", "d", fragments["d"]),
    ]
    name = ptx.identifier(instruction.id)
    text = ptx.entry(name, list(MATRICES), [ptx.declare(p, f) for p, f in fragments.items()], body)
    return Kernel(name, Multiply(instruction), text, instruction.target)


def launches(instruction: Instruction) -> tuple[Launch, Launch]:
    """The structure launch (hot x codes), and the C launch (one C slot at a time)."""
    text = kernel(instruction)
    hot, coded = hot_and_coded(instruction)
    c, d = instruction.fragment("c"), instruction.fragment("d")
    images = {f.operand: one_hot(f.slots, f.slot_bits, f.one) for f in (hot, c)}
    images[coded.operand] = codes(coded.slots, coded.slot_bits, coded.one)
    zero = {operand: np.zeros((1, image.shape[1]), np.uint8) for operand, image in images.items()}
    grid, size = (len(images[hot.operand]), len(images[coded.operand]), 1), d.threads * ptx.thread_bytes(d)
    return (
        Launch(text, grid, (images["a"], images["b"], zero["c"]), 0, grid[0] * grid[1] * size),
        Launch(text, (1, 1, len(images["c"])), (zero["a"], zero["b"], images["c"]), 0, len(images["c"]) * size),
    )


def decode(instruction: Instruction, structure_raw: Bytes, c_raw: Bytes) -> Readout:
    """The structure tensor as slot numbers, from the outputs of the two `launches`.

    D slot "d"[j] gains A slot "a"[j] times B slot "b"[j], sorted by a, then d; D slot "c"[s] gains C slot s. The
    instruction does not read slots that are in no triple.

    ProbeError if an answer is not one that a single product of zeros and ones can give, or if the number of triples is
    not m x n x k times the number of products.
    """
    hot, coded = hot_and_coded(instruction)
    d = instruction.fragment("d")
    width = d.slots
    answers = unpack(structure_raw[None], d.slot_bits).reshape(-1, 1 + hot.slots, width)
    reached, bits = (_bits_xor if instruction.bit_op == "xor" else _bits)(instruction, answers)
    hot_slots, d_slots = np.divmod(reached, width)
    coded_slots = (bits << np.arange(len(bits), dtype=np.int32)[:, None]).sum(axis=0)
    _check_count(instruction, coded_slots, coded.slots)
    slots = {hot.operand: hot_slots, coded.operand: coded_slots, "d": d_slots}
    order = np.lexsort((d_slots, slots["a"]))
    triples = {operand: slots[operand][order].astype(np.int32) for operand in MULTIPLIED}
    return {**triples, "c": _decode_c(instruction, unpack(c_raw[None], d.slot_bits).reshape(-1, width))}


def _bits(instruction: Instruction, answers: Array) -> tuple[Ints, NDArray[np.int32]]:
    """(pairs (hot slot, D slot) that answer to all ones, as flat numbers; their answers to each bit)."""
    hit = answers == instruction.fragment("d").one
    if np.count_nonzero(hit) != np.count_nonzero(answers):
        _refuse(instruction, hit == (answers != 0), answers)
    reached = np.flatnonzero(hit[0, 1:])
    bits = hit[:, 1:].reshape(len(hit), -1)[:, reached]
    if np.count_nonzero(bits) != np.count_nonzero(hit) or bits[-1].any():
        raise ProbeError(f"{instruction.name}: D answers where A or B is zero, or where all ones gave nothing.")
    return reached, bits[1:-1].astype(np.int32)


def _bits_xor(instruction: Instruction, answers: Array) -> tuple[Ints, NDArray[np.int32]]:
    """As `_bits`, from the change relative to image 0, where the hot operand is all zero."""
    change = (answers[:, 1:] - answers[:, :1]).reshape(len(answers), -1)
    reached = np.flatnonzero(change[0])
    signs = change[:, reached].astype(np.int32)
    fits = np.abs(signs) == 1
    if np.count_nonzero(change) != signs.size or not fits.all() or (signs[0] > 0).any() or (signs[-1] < 0).any():
        _refuse(instruction, fits, signs)
    return reached, (signs[1:-1] < 0).astype(np.int32)


def _refuse(instruction: Instruction, fits: Array, answers: Array) -> None:
    wrong = np.argwhere(~fits)
    first = f", first at {wrong[0].tolist()}: raw value {int(answers[tuple(wrong[0])]):#x}" if len(wrong) else ""
    raise ProbeError(
        f"{instruction.name}: not a sum of single products: {len(wrong)} of {fits.size} answers are none that one "
        f"A slot times one B slot can give{first}."
    )


def _check_count(instruction: Instruction, coded_slots: Array, slots: int) -> None:
    """`coded_slots` is the slot of the coded operand in each triple; the operand has `slots`."""
    shape, count, largest = instruction.shape, len(coded_slots), int(coded_slots.max(initial=0))
    needed = shape.m * shape.n * shape.k * instruction.products
    if count != needed or largest >= slots:
        raise ProbeError(
            f"{instruction.name}: the structure tensor has {count} triples where {instruction.products} product(s) "
            f"of {shape} have {needed}; largest slot met {largest} of {slots}."
        )


def _decode_c(instruction: Instruction, answers: Array) -> Array:
    """The D slot that each C slot reaches; ProbeError unless each C slot reaches another one, and all are reached."""
    hit = answers[1:] == instruction.fragment("d").one
    lone = (hit.sum(axis=0) == 1).all() and (hit.sum(axis=1) == 1).all()
    if not lone or np.count_nonzero(hit) != np.count_nonzero(answers):
        raise ProbeError(
            f"{instruction.name}: C does not reach D slot by slot: {np.count_nonzero(answers)} answers from "
            f"{hit.shape[0]} C slots to {hit.shape[1]} D slots."
        )
    reached: Array = hit.argmax(axis=1).astype(np.int32)
    return reached
