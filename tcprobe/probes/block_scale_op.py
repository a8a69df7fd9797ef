"""What the emulator does in place of the kernels of scales, for any layouts and any map of scales."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import FACTORS
from tcprobe.layout.arrays import Bytes, Floats, Ints
from tcprobe.layout.table import Table
from tcprobe.probes.emulation import elements
from tcprobe.probes.ptx import EmulatedCore, Launch
from tcprobe.probes.slots import unpack
from tcprobe.probes.sparse_op import columns, matrices

EXPONENT_OF_ONE, NO_POWER = 127, 0xFF


@dataclass(frozen=True)
class Scaled:
    """One byte for each D slot: its exponent, or 0 if D is zero; NO_POWER in all of a lane's if one is not a power of
    two.

    `choices` are selectors of scale_a and scale_b, one choice for each answer.
    """

    instruction: Instruction
    choices: tuple[Mapping[str, int], ...]
    from_code: bool = False

    def emulate(self, launch: Launch, tables: EmulatedCore) -> Bytes:
        """Multiplies ones, scaled by powers of two."""
        row, d = self.instruction, self.instruction.fragment("d")
        names = [f.operand for f in row.given if f.operand != "c"]
        raw = dict(zip(names, launch.inputs, strict=True))
        a, b = (matrices(row.fragment(o), raw[o], tables) for o in FACTORS)
        k = (
            columns(row.metadata, tables.table(row.metadata).selection(0), raw["e"])
            if row.metadata
            else _all_columns(a)
        )
        index, used = elements(tables.table(d), d)
        answers = []
        for selectors in self.choices:
            scales = (_scales(f, tables.table(f).selection(selectors[f.operand]), raw[f.operand]) for f in row.scales)
            product = _products(a, b[0], k[0], *scales)
            slots = np.zeros((*product.shape[:2], d.slots))
            slots[..., used] = product.reshape(*product.shape[:2], -1)[..., index]
            answers.append(_exponents(slots, d.elements).reshape(-1))
        return np.concatenate(answers)


def _scales(fragment: Fragment, table: Table, raw: Bytes) -> Ints:
    """The exponents of scales: (images, rows, cols)."""
    index, used = elements(table, fragment)
    exponents = np.zeros((len(raw), fragment.rows * fragment.cols), np.int64)
    exponents[:, index] = exponents_of(fragment, unpack(raw, fragment.slot_bits))[:, used]
    return exponents.reshape(len(raw), fragment.rows, fragment.cols)


def exponents_of(fragment: Fragment, scales: Bytes) -> Ints:
    """The exponents of scales that are powers of two."""
    step = fragment.one & -fragment.one  # bits below it are the mantissa
    exponents: Ints = (scales.astype(np.int64) - fragment.one) // step
    return exponents


def _all_columns(a_elements: Ints) -> Ints:
    """The k of every column of A: in a dense multiply, the column's number."""
    return np.broadcast_to(np.arange(a_elements.shape[2]), (1, *a_elements.shape[1:]))


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
