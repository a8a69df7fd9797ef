"""The structure tensor of a block-scaled multiply, and which byte of which lane scales each product.

With all scales one, the structure tensor is measured as for any other multiply. Then one A slot at a time is one, B is
all ones, and the scale bytes are powers of two that encode their own numbers, three bits (a digit) at a time. Each
image is repeated with every digit replaced by 7 minus it. The exponent of D is the digit of the byte that scaled the
product. Both answers must add up to 7; a product scaled by no byte, or by two, would be noticed. First A's bytes encode
their numbers while B's are one, then B's while A's are one. The kernel multiplies once for each value of byte-id and
thread-id of the operand that has more of them.

All metadata of a sparse multiply is 0x4 throughout.

The bytes that scale products give tables of scales: which row of A or column of B, and which block along k. A block is
a run of columns of A; all blocks have the same length. If the structure tensor's numbering puts other columns together,
the columns are renumbered by rule: blocks in the order of their lowest column, inside a block as before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tcprobe.code.templates import Macros
from tcprobe.errors import ProbeError
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction, sparsity
from tcprobe.isa.operand import FACTORS
from tcprobe.layout.arrays import Bytes, Floats, Ints
from tcprobe.layout.structure import elements
from tcprobe.layout.table import Table, Tables, selected
from tcprobe.probes import ptx
from tcprobe.probes.experiment import OWN_RULE, Conclusion, Context, Experiment, FormExperiment, Readout
from tcprobe.probes.multiply import MultiplyExperiment
from tcprobe.probes.ptx import EmulatedCore, FormOp, Kernel, Launch
from tcprobe.probes.slots import codes, from_slots, into_slots, one_hot, pack, place_table, unpack
from tcprobe.probes.sparse import SparseExperiment, columns, matrices, metadata_images


class Scales(NamedTuple):
    """`d_slots`: the D slots that each A slot reaches, ascending. `scale_a`, `scale_b`: the byte that scales a product,
    by choice of selectors, A slot and D slot met.
    """

    d_slots: Ints
    scale_a: Ints
    scale_b: Ints


def with_scales(instruction: Instruction, unscaled: Conclusion, scales: Scales) -> Conclusion:
    """The conclusion, with tables of the scales added; ProbeError if the scales do not map to blocks."""
    tables, numbering = dict(unscaled.tables), unscaled.numbering
    block = _blocks(instruction, tables, scales)
    length = instruction.fragment("a").cols // instruction.fragment("scale_a").cols
    if (block != np.arange(len(block)) // length).any():
        move = _renumbering(instruction, block)
        tables, numbering = _renumber(instruction, tables, move), OWN_RULE
    row, stored, _ = elements(tables["a"])
    _, col, _ = elements(tables["d"])
    block_of_slot = stored // length
    a, b = instruction.scales
    lines = np.broadcast_to(row[:, None], scales.d_slots.shape), col[scales.d_slots]
    blocks = np.broadcast_to(block_of_slot[:, None], scales.d_slots.shape)
    tables["scale_a"] = _table(instruction, _Answers(a, lines[0], blocks), scales.scale_a)
    tables["scale_b"] = _table(instruction, _Answers(b, blocks, lines[1]), scales.scale_b)
    return replace(unscaled, tables=tables, numbering=numbering)


def _blocks(instruction: Instruction, tables: Tables, scales: Scales) -> Ints:
    """The block of each stored column of A: columns of one block are scaled by the same bytes of B's scales.

    Blocks are numbered in the order of their lowest column. ProbeError unless there are as many as documented, equally
    long.
    """
    _, stored, _ = elements(tables["a"])
    _, col, _ = elements(tables["d"])
    order = np.argsort(col[scales.d_slots], axis=1)
    bytes_by_col = np.take_along_axis(scales.scale_b[0], order, axis=1)
    of_column: dict[int, tuple[int, ...]] = {}
    for column, key in zip(stored.tolist(), map(tuple, bytes_by_col.tolist()), strict=True):
        if of_column.setdefault(column, key) != key:
            raise ProbeError(f"{instruction.name}: column {column} of A is scaled by several blocks of B's scales.")
    keys = list(dict.fromkeys(of_column[column] for column in sorted(of_column)))
    block = np.array([keys.index(of_column[column]) for column in sorted(of_column)])
    sizes, count = np.bincount(block), instruction.fragment("scale_a").cols
    if len(sizes) != count or len(set(sizes.tolist())) > 1:
        raise ProbeError(f"{instruction.name}: blocks of {sizes.tolist()} columns, not {count} equal ones.")
    return block


def _units(instruction: Instruction) -> tuple[int, int]:
    """How many stored columns of A, and how many k, are renumbered together: 1 and 1, or a chunk of a sparse A."""
    if not instruction.metadata:
        return 1, 1
    rule = sparsity(instruction.metadata)
    return rule.fields * rule.span, rule.positions * rule.span


def _renumbering(instruction: Instruction, block_of_column: Ints) -> Ints:
    """The new number of each unit of columns."""
    unit, _ = _units(instruction)
    units = block_of_column.reshape(-1, unit)
    if (units != units[:, :1]).any():
        raise ProbeError(f"{instruction.name}: a chunk of metadata is scaled by several blocks.")
    order = np.argsort(units[:, 0], kind="stable")
    new_number = np.empty(len(order), np.int64)
    new_number[order] = np.arange(len(order))
    return new_number


def _renumber(instruction: Instruction, tables: Tables, new_number: Ints) -> dict[str, Table]:
    """The tables with columns along k renumbered."""
    stored, whole = _units(instruction)
    renumbered = dict(tables)
    for operand, output, unit in (("a", "col", stored), ("b", "row", whole), ("e", "col", stored)):
        if operand in tables:
            old = tables[operand].values
            moved = (None if v is None else int(new_number[v // unit]) * unit + v % unit for v in old[output])
            renumbered[operand] = tables[operand].with_values({**old, output: tuple(moved)})
    return renumbered


class _Answers(NamedTuple):
    """An operand of scales, and for each answer the row and column of the scale that it needs."""

    fragment: Fragment
    row: Ints
    col: Ints


def _table(instruction: Instruction, scale_answers: _Answers, scale_bytes: Ints) -> Table:
    """By selector, the block that each byte scales; `scale_bytes` are the bytes of the answers, by choice."""
    fragment, tables = scale_answers.fragment, []
    for selector in fragment.selectors:
        first, *others = scale_bytes[selector :: len(fragment.selectors)]
        if any((first != other).any() for other in others):
            raise ProbeError(
                f"{instruction.name}: the other operand's byte-id or thread-id changes {fragment.operand}."
            )
        tables.append(_selection(instruction, scale_answers, first))
    return selected(tables)


def _selection(instruction: Instruction, scale_answers: _Answers, scale_bytes: Ints) -> Table:
    fragment, row, col = scale_answers
    rows, cols = np.full(fragment.slots, -1), np.full(fragment.slots, -1)
    rows[scale_bytes], cols[scale_bytes] = row, col
    used = rows >= 0
    places = set((rows * fragment.cols + cols)[used].tolist())
    if (rows[scale_bytes] != row).any() or (cols[scale_bytes] != col).any() or len(places) != used.sum():
        raise ProbeError(
            f"{instruction.name}: a byte of {fragment.operand} scales several blocks, or several bytes one."
        )
    if len(places) != fragment.rows * fragment.cols:
        raise ProbeError(f"{instruction.name}: {len(places)} of {fragment.rows * fragment.cols} blocks have a scale.")
    return place_table(fragment, rows, cols)


EXPONENT_OF_ONE, NO_POWER = 127, 0xFF


@dataclass(frozen=True)
class Scaled(FormOp):
    """One byte for each D slot: its exponent, or 0 if D is zero; NO_POWER in all of a lane's if one is not a power of
    two.

    `choices` are selectors of scale_a and scale_b, one choice for each answer.
    """

    choices: tuple[Mapping[str, int], ...]

    def emulate(self, launch: Launch, tables: EmulatedCore) -> Bytes:
        """Multiplies ones, scaled by powers of two."""
        row, d = self.instruction, self.instruction.fragment("d")
        names = [f.operand for f in row.given if f.operand != "c"]
        raw = dict(zip(names, launch.inputs, strict=True))
        a, b = (matrices(row.fragment(o), raw[o], tables) for o in FACTORS)
        e = row.metadata
        all_columns = np.broadcast_to(np.arange(a.shape[2]), (1, *a.shape[1:]))
        k = columns(e, tables.table(e).selection(0), raw["e"]) if e else all_columns
        answers = []
        for selectors in self.choices:
            scales = (_scales(f, tables.table(f).selection(selectors[f.operand]), raw[f.operand]) for f in row.scales)
            product = _products(a, b[0], k[0], *scales)
            slots = into_slots(tables.table(d), d, product.reshape(*product.shape[:2], -1))
            answers.append(_exponents(slots, d.elements).reshape(-1))
        return np.concatenate(answers)


def _scales(fragment: Fragment, table: Table, raw: Bytes) -> Ints:
    """The exponents of scales that are powers of two: (images, rows, cols)."""
    step = fragment.one & -fragment.one  # bits below it are the mantissa
    exponents = (unpack(raw, fragment.slot_bits).astype(np.int64) - fragment.one) // step
    return from_slots(table, fragment, exponents).reshape(len(raw), fragment.rows, fragment.cols)


def _products(a_elements: Ints, b_elements: Ints, k_of_stored: Ints, scale_a: Ints, scale_b: Ints) -> Floats:
    """D by image of scales and of A: (scales, A, m, n). A has few ones."""
    length = a_elements.shape[2] // scale_a.shape[2]
    d = np.zeros((len(scale_a), *a_elements.shape[:2], b_elements.shape[1]))
    for image, row, stored in zip(*np.nonzero(a_elements), strict=True):
        block = stored // length
        exponent = scale_a[:, row, block, None] + scale_b[:, block]
        d[:, image, row] += b_elements[k_of_stored[row, stored]] * np.exp2(exponent)
    return d


def _exponents(scaled_products: Floats, elements: int) -> Bytes:
    """The exponent byte of each D slot; a lane has `elements` slots."""
    mantissa, exponent = np.frexp(scaled_products)
    shifted = np.where(scaled_products == 0, 0, exponent - 1 + EXPONENT_OF_ONE)
    wrong = ((mantissa != 0.5) & (scaled_products != 0)).reshape(-1, elements).any(axis=1)
    return np.where(wrong.repeat(elements), NO_POWER, shifted.reshape(-1)).astype(np.uint8)


DIGIT = 3  # bits of a byte's number in an image: ue4m3 has exponents up to 8
BYTES = WARP * 4
PTX = Macros(globals(), ptx=ptx, WARP=WARP)
DIGITS = -(-(BYTES - 1).bit_length() // DIGIT)
MOST = (1 << DIGIT) - 1
IMAGES = 1 + 2 * 2 * DIGITS  # all one; by operand and digit: the digit, 7 minus the digit


@dataclass(frozen=True)
class ScaledExperiment(FormExperiment):
    """A block-scaled mma or mma.sp, under all values of byte-id and thread-id."""

    @cached_property
    def unscaled(self) -> Experiment:
        """The experiment on the structure tensor, with all scales one."""
        return SparseExperiment(self.instruction) if self.instruction.metadata else MultiplyExperiment(self.instruction)

    def launches(self) -> list[Launch]:
        """The launches of the structure tensor, then the launch of the scales."""
        return [*self.unscaled.launches(), launch(self.instruction)]

    def decode(self, launches: Sequence[Launch], outputs: Sequence[Bytes]) -> Readout:
        """The reading of the structure tensor's experiment, with three more arrays.

        "d_slots": those that each A slot reaches. "scale_a", "scale_b": the byte by choice of selectors, A slot and D
        slot met.
        """
        unscaled = self.unscaled.decode(launches[:-1], outputs[:-1])
        by_choice = [decode(self.instruction, raw) for raw in outputs[-1].reshape(len(choices(self.instruction)), -1)]
        d_slots = by_choice[0][0]
        if any(not np.array_equal(d_slots, other) for other, _, _ in by_choice):
            raise ProbeError(f"{self.instruction.name}: byte-id or thread-id changes which slots of A and D meet.")
        scaling = {"scale_a": np.stack([a for _, a, _ in by_choice]), "scale_b": np.stack([b for _, _, b in by_choice])}
        return {**unscaled, "d_slots": d_slots, **scaling}

    def conclude(self, reading: Readout, context: Context) -> Conclusion:
        """Tables that predict the structure tensor and every scale."""
        scales = Scales(*(reading[name].astype(np.int64) for name in Scales._fields))
        unscaled = {name: array for name, array in reading.items() if name not in Scales._fields}
        return with_scales(self.instruction, self.unscaled.conclude(unscaled, context), scales)


def experiments() -> list[ScaledExperiment]:
    """One for each multiply with scales in registers."""
    return [ScaledExperiment(row) for row in inventory.of_family("mma.block_scale", "mma.sp.block_scale")]


def choices(instruction: Instruction) -> list[dict[str, int]]:
    """Selectors by operand of scales, so that each selector of each operand occurs at least once."""
    count = max(len(f.selectors) for f in instruction.scales)
    return [{f.operand: number % len(f.selectors) for f in instruction.scales} for number in range(count)]


def kernel(instruction: Instruction) -> Kernel:
    """Block (x, y) takes A image x and image y of all scales.

    For each choice of selectors it stores one byte for each D slot, its exponent.
    """
    fragments = {f.operand: f for f in instruction.fragments}
    images = {"a": "%x", "b": "0", "e": "0", "scale_a": "%y", "scale_b": "%y"}
    loaded, selector_choices = [f.operand for f in instruction.given if f.operand != "c"], choices(instruction)
    body = PTX.body(instruction, fragments, {operand: images[operand] for operand in loaded}, selector_choices)
    name = ptx.identifier(f"scales.{instruction.id}")
    text = ptx.entry(name, [*loaded, "out"], PTX.registers(fragments), body)
    return Kernel(name, Scaled(instruction, tuple(selector_choices)), text, instruction.target)


def launch(instruction: Instruction) -> Launch:
    """The launch of all A slots with all images of scales."""
    a, b = instruction.factors
    inputs = [one_hot(a.slots, a.slot_bits, a.one), codes(b.slots, b.slot_bits, b.one)[:1]]
    if instruction.metadata:
        inputs.append(pack(metadata_images(sparsity(instruction.metadata))[:1], 4))
    inputs += [scale_images(f, turn) for turn, f in enumerate(instruction.scales)]
    grid = (1 + a.slots, IMAGES, 1)
    size = len(choices(instruction)) * grid[0] * IMAGES * BYTES
    return Launch(kernel(instruction), grid, tuple(inputs), 0, size)


def scale_images(fragment: Fragment, turn: int) -> Bytes:
    """Scale bytes of all lanes: (IMAGES, BYTES).

    All bytes are one, except in the images of the operand's `turn` (0 for scale_a, 1 for scale_b), which encode the
    bytes' numbers.
    """
    exponents = np.zeros((IMAGES, BYTES), np.int64)
    numbers = np.arange(BYTES)
    for digit in range(DIGITS):
        encoded, image = numbers >> DIGIT * digit & MOST, 1 + 2 * (turn * DIGITS + digit)
        exponents[image], exponents[image + 1] = encoded, MOST - encoded
    step = fragment.one & -fragment.one
    return (fragment.one + exponents * step).astype(np.uint8)


def decode(instruction: Instruction, raw: Bytes) -> tuple[Ints, Ints, Ints]:
    """(D slots by A slot; bytes of scale_a, and of scale_b, by A slot and D slot met): (A slots, n) each.

    ProbeError for answers that one product with one scale of each operand cannot give.
    """
    a, n = instruction.fragment("a"), instruction.shape.n
    answers = raw.reshape(IMAGES, 1 + a.slots, -1).astype(np.int64)
    reached = answers[:, 1:] > 0
    if answers[:, 0].any() or (reached != reached[0]).any() or (reached[0].sum(axis=1) != n).any():
        raise ProbeError(f"{instruction.name}: scales change which slots of A and D meet, or A is zero and D is not.")
    d_slots = np.nonzero(reached[0])[1].reshape(a.slots, n)
    exponents = np.take_along_axis(answers[:, 1:], d_slots[None], axis=2) - EXPONENT_OF_ONE
    if exponents[0].any():
        raise ProbeError(f"{instruction.name}: with all scales one a product of ones is not one.")
    return d_slots, _scaling_bytes(instruction, exponents, 0), _scaling_bytes(instruction, exponents, 1)


def _scaling_bytes(instruction: Instruction, exponents: Ints, turn: int) -> Ints:
    """The number of the byte that scaled each answer."""
    own: Any = exponents[1 + 2 * turn * DIGITS :][: 2 * DIGITS]
    plain, turned = own[::2], own[1::2]
    if (plain + turned != MOST).any() or plain.min() < 0 or turned.min() < 0:
        name = instruction.scales[turn].operand
        raise ProbeError(f"{instruction.name}: some product is not scaled by one byte of {name} alone.")
    byte: Ints = (plain << DIGIT * np.arange(DIGITS)[:, None, None]).sum(axis=0)
    if byte.max() >= BYTES:
        raise ProbeError(f"{instruction.name}: the answers encode byte {byte.max()}, which does not exist.")
    return byte
