"""Weights repacked once: an order of storage in which a lane's elements of several k steps are one 16-byte load.

    request, sums, words     what is asked, scales, and words
    cuda, python             the code that loads, and that packs

>>> from tcprobe.ask.repack import repack
>>> from tcprobe.store.cell import load
>>> found = repack(load("mma.m16n8k16.row.col.f32.f16.f16.f32.b", "sm_80"), "s4")
>>> found.steps, found.k, found.lines, found.loads, found.conversion.instructions / found.conversion.codes
(8, 128, 8, 1, 1.125)

A block is `k` x `lines` weights, lines being what is not a k: columns of B, rows of A. Blocks lie by k, then by lines;
in one each lane's words follow each other, lane after lane, step after step. Lanes that hold the same have one place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tcprobe.ask.banks.accesses import slots_of
from tcprobe.ask.path.formula import formula
from tcprobe.ask.path.steps import NOTHING
from tcprobe.ask.repack.request import check_group, check_zeros, decoding_for
from tcprobe.ask.repack.sums import sums_table
from tcprobe.ask.table_confidence import least
from tcprobe.code.dequantize import WORD, Decoding
from tcprobe.errors import InternalError, UsageError
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.isa.dtypes import dtype
from tcprobe.layout.arrays import Ints
from tcprobe.store.cell import Cell
from tcprobe.store.choose import Layers
from tcprobe.text import Described
from tcprobe.values import Json

LOAD = 128  # bits of the widest load
FLOATS = ("f16", "bf16")  # what weights are scaled as; others' sums are
SECTOR = 32  # bytes of global memory that are fetched together


@dataclass(frozen=True, repr=False)
class Repacking(Described):
    """How weights for `cell` are stored, `steps` of its k steps together.

    `owner` says of each lane which place in a block is its; `depth` and `line`, of shape (places, slots), which element
    of the first step a place's slots are; `filled` which of the stored registers each register of the fragment is.
    `group`: elements of k that have a scale in common, None without scales; `sums`: D, where it takes the scales in;
    `zeros`: whether a zero point comes with each scale, a weight being (code - zero point) scale.
    """

    cell: Cell
    conversion: Decoding
    owner: Ints
    depth: Ints
    line: Ints
    filled: tuple[int, ...]
    group: int | None
    sums: Cell | None = None
    zeros: bool = False

    @property
    def in_words(self) -> Iterator[str]:
        """How a block is stored, loaded and converted."""
        from tcprobe.ask.repack import words

        return words.in_words(self)

    @property
    def code(self) -> str:
        """A CUDA header that loads and converts."""
        from tcprobe.ask.repack import cuda

        return cuda.source(self)

    @property
    def slots(self) -> int:
        """Elements of a place in one step."""
        return int(self.depth.shape[1])

    @property
    def steps(self) -> int:
        """Of k, in a block."""
        return max(1, LOAD // (self.slots * dtype(self.conversion.source).bits))

    @property
    def step_k(self) -> int:
        """Elements of k in a step; of compressed A those that are stored."""
        fragment = self.cell.fragment
        return fragment.cols if fragment.depth == "col" else fragment.rows

    @property
    def k(self) -> int:
        """Elements of k in a block."""
        return self.steps * self.step_k

    @property
    def lines(self) -> int:
        """Elements of n, or of m, in a block."""
        fragment = self.cell.fragment
        return fragment.rows if fragment.depth == "col" else fragment.cols

    @property
    def words(self) -> int:
        """Of a lane, of 32 bits, in a block."""
        return self.steps * self.slots // self.conversion.codes

    @property
    def loads(self) -> int:
        """Of 16 bytes, of a lane, for a block."""
        return self.words * WORD // LOAD

    @property
    def places(self) -> int:
        """Lanes that have words of their own."""
        return len(self.depth)

    @property
    def block_bytes(self) -> int:
        """Of a block."""
        return self.places * self.words * WORD // 8

    @property
    def groups(self) -> int:
        """Groups of scales that a block has part in; 0 without scales."""
        return max(1, self.k // self.group) if self.group else 0

    @cached_property
    def bits(self) -> Ints:
        """Bit of a lane's words where bit b of a code is, of shape (steps, slots, bits of a code)."""
        number = np.arange(self.steps * self.slots)
        places = np.array(self.conversion.places)[number % self.conversion.codes]
        positions: Ints = (number // self.conversion.codes * WORD)[:, None] + places
        return positions.reshape(self.steps, self.slots, -1)

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Which lines' scales multiply a stored register: the slots that stand for them, of the low and high half."""
        return tuple((self._same_line(j), self._same_line(j + 1)) for j in range(0, self.slots, 2))

    @property
    def distinct(self) -> list[tuple[int, int]]:
        """The pairs that differ: a register of scales for each."""
        return list(dict.fromkeys(self.pairs))

    def _same_line(self, slot: int) -> int:
        """The first slot that has the same line in every lane."""
        return next(j for j in range(slot + 1) if (self.line[:, j] == self.line[:, slot]).all())

    @property
    def scale_instructions(self) -> float:
        """Instructions an element for scales, of weights that are scaled."""
        return 1 / 2 if self.group and not self.sums else 0.0

    @property
    def zero_range(self) -> tuple[int, int]:
        """The least and most that a zero point may be: a code, or one more, as GPTQ's first format has them."""
        kind = dtype(self.conversion.source)
        least = -self.conversion.flip
        return least, least + (1 << kind.bits) - (kind.bits == 8)

    @property
    def compiled_for(self) -> tuple[str, ...]:
        """The arch's own targets that have the conversion, if not every arch has it."""
        return self.conversion.needs.every(arch(self.cell.arch)) if self.conversion.needs else ()

    @property
    def sectors(self) -> int:
        """Sectors that the loads of all lanes touch, every byte of which is used, for a block."""
        return self.block_bytes // SECTOR

    @property
    def ldmatrix(self) -> str:
        """The id of the ldmatrix that gives the same from shared memory, "" where the arch has none."""
        id_ = f"ldmatrix.m8n16.x4.shared.{self.conversion.target}.{self.conversion.source}.d"
        fragment = inventory.fragments().get(id_)
        return id_ if fragment and fragment.target.on(arch(self.cell.arch)) else ""

    def to_json(self) -> Json:
        """Plain data; `order` has [step, register of the fragment's, slot of it, word, bits from the lowest]."""
        way, fragment = self.conversion, self.cell.fragment
        each = fragment.elements // fragment.registers
        order = [
            [step, register, slot, int(bits[0]) // WORD, [int(bit) % WORD for bit in bits]]
            for step in range(self.steps)
            for register, stored_register in enumerate(self.filled)
            for slot, bits in enumerate(self.bits[step, stored_register * each : (stored_register + 1) * each])
        ]
        return {
            "fragment": fragment.id,
            "arch": self.cell.arch,
            "type": way.source,
            "as": way.target,
            "proven": True,
            "block": {
                "k": self.k,
                "lines": self.lines,
                "steps": self.steps,
                "bytes": self.block_bytes,
                "words": self.words,
                "loads": self.loads,
                "sectors": self.sectors,
            },
            "place": self.owner.tolist(),
            "order": order,
            "flip": way.flip,
            "convert": {
                "instructions": way.instructions,
                "codes": way.codes,
                "registers": way.registers,
                "how": way.words,
                "lines": list(way.lines),
            },
            "scales": {"group": self.group, "groups": self.groups, "of": "sums" if self.sums else "weights"}
            if self.group
            else None,
            "zeros": {"type": "u8", "add": way.flip, "least": self.zero_range[0], "most": self.zero_range[1]}
            if self.zeros
            else None,
            "ldmatrix": self.ldmatrix or None,
            "evidence": [self.cell.evidence, *([self.sums.evidence] if self.sums else [])],
            "confidence": least([self.cell, *([self.sums] if self.sums else [])]).to_json(),
        }


def repack(
    cell: Cell, stored_type: str, target_type: str | None = None, group: int | None = None, layers: Layers | None = None
) -> Repacking:
    """The order of storage for weights of type `stored_type` that `cell`'s multiply takes, proven to be one to one.

    `target_type` is the type that they are converted to, which is the fragment's own; `group` as in Repacking; `layers`
    have D's table, where that takes the scales in. UsageError where the fragment is not a factor in registers, has
    another type, or the types or the group do not do, with what does.
    """
    way = decoding_for(cell, stored_type, target_type)
    slots = slots_of(cell)
    if (slots.row == NOTHING).any():
        raise UsageError(f"{slots.name} leaves slots unused; only whole fragments are repacked.")
    depth, line = (slots.col, slots.row) if cell.fragment.depth == "col" else (slots.row, slots.col)
    filled, own = _registers(depth, line, cell.fragment.registers)
    owner, first = _places(depth[:, own], line[:, own])
    sums = sums_table(cell.fragment, cell.arch, layers) if group and way.target not in FLOATS else None
    weights = Repacking(cell, way, owner, depth[first][:, own], line[first][:, own], filled, group, sums)
    check_group(cell, weights.step_k, weights.k, group)
    _prove(weights)
    return weights


def with_zeros(weights: Repacking) -> Repacking:
    """The same with a zero point for each scale; UsageError without scales, and for types that have no zero points."""
    check_zeros(weights.cell, weights.conversion, weights.group)
    return replace(weights, zeros=True)


def _registers(k_of: Ints, line_of: Ints, count: int) -> tuple[tuple[int, ...], Ints]:
    """Which stored register each register is, and the slots that are stored: a register that repeats one is not."""
    slots = np.arange(k_of.shape[1]).reshape(count, -1)
    numbers: dict[bytes, int] = {}
    filled = [
        numbers.setdefault(k_of[:, register_slots].tobytes() + line_of[:, register_slots].tobytes(), len(numbers))
        for register_slots in slots
    ]
    return tuple(filled), slots[[filled.index(number) for number in range(len(numbers))]].ravel()


def _places(k_of: Ints, line_of: Ints) -> tuple[Ints, list[int]]:
    """The place of each lane, and the first lane that has each."""
    numbers: dict[bytes, int] = {}
    contents = (k.tobytes() + line.tobytes() for k, line in zip(k_of, line_of, strict=True))
    owner = np.array([numbers.setdefault(content, len(numbers)) for content in contents])
    return owner, [int(np.flatnonzero(owner == place)[0]) for place in range(len(numbers))]


def _prove(weights: Repacking) -> None:
    """InternalError unless every element of a block has a place of its own, and every bit is one element's bit."""
    step = np.arange(weights.steps)[:, None]
    depth = weights.depth[:, None, :] + step * weights.step_k
    elements = np.unique(depth * weights.lines + weights.line[:, None, :])
    whole = len(elements) == depth.size == weights.k * weights.lines and elements[-1] == weights.k * weights.lines - 1
    if not whole or sorted(weights.bits.ravel().tolist()) != list(range(weights.words * WORD)):
        raise InternalError(f"the order of {weights.cell.fragment.id} is not proven: it is not one to one.")


def lane_formula(values: Ints, what: str) -> str:
    """The formula of numbers (issues, lanes) in `lane` and `issue`; UsageError where there is no closed form."""
    text = formula(values)
    if text is None:
        raise UsageError(f"{what} has no closed form, so there is no code.", "no code")
    return text
