"""Fragments of a sparse warpgroup multiply: A, D and the metadata, numbered by addresses of the factors.

As for dense forms, one A slot at a time is one while B encodes its elements' numbers. This is done once for all D
slots, then for a few slots of each thread under every image of metadata (`probes.sparse`) and every documented
selector. The k that an A slot meets under each index gives its chunk and its place in it; the images encode the field
that it obeys. Finally A in shared memory encodes its own numbers while the metadata picks the first elements of each
chunk: that gives the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from tcprobe.errors import ProbeError
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARPGROUP
from tcprobe.isa.operand import OF_WARPGROUP
from tcprobe.isa.sparsity import Sparsity, sparsity
from tcprobe.layout.arrays import Bytes, Ints, Words
from tcprobe.layout.structure import WholeProduct
from tcprobe.layout.table import StructureHash, Table, selected, slot_table
from tcprobe.probes.experiment import Conclusion, Context, OfInstruction, Readout
from tcprobe.probes.ptx import Launch
from tcprobe.probes.slots import pack
from tcprobe.probes.sparse_decode import indices_and_fields
from tcprobe.probes.sparse_images import metadata_images
from tcprobe.probes.wgmma import (
    CodedRun,
    d_rows,
    element_table,
    packed_b,
    places,
    registers_launch,
    shared_launch,
    slot_elements,
)
from tcprobe.probes.wgmma_meetings import meetings, product, split
from tcprobe.probes.wgmma_op import FEW, FEW_MEETINGS
from tcprobe.store.measurement import ADDRESSES

HALF = 16  # bits of each of two packed numbers: k and column of an element of B, row and column of a D slot
IMAGES = 8  # of metadata whose words are decoded at a time


@dataclass(frozen=True)
class SparseWarpgroupExperiment(OfInstruction):
    """A wgmma.sp. A reading has "a" and "d", elements by slot; "e": by selector, the field that each A slot obeys."""

    def launches(self) -> list[Launch]:
        """All D slots under one metadata; for each selector, a few under all of it; A in shared memory."""
        row, images = self.instruction, _metadata(self._rule)
        slots, n = row.fragment("a").slots, row.shape.n
        few = 4 * slots * len(images) * (1 + FEW_MEETINGS)
        return [
            registers_launch(CodedRun(row, metadata=images), (slots, 1), 4 * slots * (1 + n)),
            *(
                registers_launch(
                    CodedRun(row, selector=selector, flags=FEW, metadata=images), (slots, len(images)), few
                )
                for selector in row.fragment("e").selectors
            ),
            shared_launch(row),
        ]

    @property
    def _rule(self) -> Sparsity:
        return sparsity(self.instruction.fragment("e"))

    def decode(self, launches: Sequence[Launch], outputs: Sequence[Bytes]) -> Readout:
        """Elements and fields; ProbeError if the answers are not those of a sparse matrix product."""
        row = self.instruction
        whole = product(row, outputs[0], places(*packed_b(row)))
        by_selector = [self._stored_and_field(raw, whole, selector) for selector, raw in enumerate(outputs[1:-1])]
        stored = by_selector[0][0]
        if any((other != stored).any() for other, _ in by_selector):
            raise ProbeError(f"{row.name}: a selector changes which elements of A the slots are.")
        lines = d_rows(row, outputs[-1], whole)
        fields = np.stack([field for _, field in by_selector])
        slots = slot_elements(row, lines[whole.least] * row.stored + stored, lines * row.shape.n + whole.col)
        return {**slots, "e": fields.astype(np.int32), "sha256": whole.digest()}

    def _stored_and_field(self, raw: Bytes, whole: WholeProduct, selector: int) -> tuple[Ints, Ints]:
        """(stored column of every A slot, field that it obeys) under a selector."""
        row, rule, name = self.instruction, self._rule, f"{self.instruction.name}, selector {selector}"
        by_index, field = indices_and_fields(
            rule, self._k_met(meetings(row, raw, FEW_MEETINGS), whole, name), WARPGROUP, name
        )
        index = np.arange(rule.positions)[None, :, None]
        chunk = by_index.max(axis=(1, 2)) // rule.positions
        if ((by_index >= 0) & (by_index != chunk[:, None, None] * rule.positions + index)).any():
            raise ProbeError(f"{name}: an index is not the place in a chunk that it should be.")
        return chunk * rule.fields + field % rule.fields, field

    def _k_met(self, words: Words, whole: WholeProduct, name: str) -> Ints:
        """By image and A slot, the k that it meets in the few D slots that it reaches.

        ProbeError unless that is one k, and the row and the columns are those of `whole`.
        """
        cols, ks = places(*packed_b(self.instruction))
        element, slot = ks << HALF | cols, (whole.first << HALF | whole.col).astype(np.int32)
        images, row = words.reshape(-1, len(whole.k), FEW_MEETINGS), whole.least[:, None]
        ks_met, bit = np.empty((*images.shape[:2], 1), np.int64), self._few(images[0])
        for start in range(0, len(images), IMAGES):
            d, b = split(self.instruction, images[start : start + IMAGES])
            b_element, d_slot = element[b], slot[d]
            k = b_element >> HALF
            ks_met[start : start + IMAGES] = k[:, :, :1]
            same = ((b_element ^ d_slot) & (1 << HALF) - 1 == 0) & (d_slot >> HALF == row)
            all_few = (np.bitwise_or.reduce(bit[d], axis=2) == (1 << FEW_MEETINGS) - 1).all()
            if not same.all() or not all_few or (k != k[:, :, :1]).any():
                raise ProbeError(f"{name}: an A slot meets several k, or metadata changes the row or columns it meets.")
        return ks_met

    def _few(self, words: Words) -> Bytes:
        """By D slot, its bit among those of its row that are used: the few that the first image has."""
        d, _ = split(self.instruction, words)
        bits = np.zeros(self.instruction.fragment("d").slots, np.uint8)
        bits[np.sort(d, axis=1)] = 1 << np.arange(FEW_MEETINGS, dtype=np.uint8)
        return bits

    def conclude(self, reading: Readout, context: Context) -> Conclusion:
        """Tables numbered by addresses in shared memory; the metadata's by what its fields govern."""
        row = self.instruction
        tables = {
            o: element_table(row.fragment(o).cols, row.fragment(o).elements, reading[o].tobytes()) for o in OF_WARPGROUP
        }
        e = selected([self._metadata_table(reading["a"], field) for field in reading["e"]])
        hashed = StructureHash(row.triples, reading["sha256"].tobytes().hex())
        return Conclusion({**tables, "e": e}, ADDRESSES, hashed)

    def _metadata_table(self, element_of_slot: Ints, field: Ints) -> Table:
        """The table of the metadata: by field, the element of A that it governs."""
        e = self.instruction.fragment("e")
        governed = np.full(e.slots, -1)
        governed[field] = element_of_slot
        if (governed[field] != element_of_slot).any():
            raise ProbeError(f"{self.instruction.name}: a field of the metadata governs two elements of A.")
        cells = [None if x < 0 else divmod(x, e.cols) for x in governed.tolist()]
        values = {n: tuple(None if cell is None else cell[j] for cell in cells) for j, n in enumerate(("row", "col"))}
        return slot_table(e.threads, e.elements, values)


@cache
def _metadata(sparsity: Sparsity) -> Bytes:
    """Images of metadata for all lanes of a warpgroup."""
    return pack(metadata_images(sparsity, WARPGROUP), 4)


def experiments() -> list[SparseWarpgroupExperiment]:
    """One experiment for each wgmma.sp."""
    return [SparseWarpgroupExperiment(row) for row in inventory.of_family("wgmma.sp")]
