"""Registers of a sparse warpgroup multiply: A, D and the metadata, numbered by addresses of the factors.

As for dense forms each A slot alone is one while B spells its elements' numbers; once for all D slots, and for a few of
each thread under every image of metadata (`probes.sparse`) and every documented selector. Which k an A slot meets under
which index says its chunk and its place there; the images spell the field that it obeys. Then A in shared memory spells
its own numbers while the metadata picks the first elements of each chunk: that gives rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tcprobe.errors import ProbeError
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARPGROUP
from tcprobe.isa.forms import Forms
from tcprobe.isa.sparsity import Sparsity, sparsity
from tcprobe.layout.table import Table, selected, slot_table
from tcprobe.probes.experiment import Conclusion, Context, OfInstruction, Reading
from tcprobe.probes.ptx import Bytes, Launch
from tcprobe.probes.slots import pack
from tcprobe.probes.sparse_decode import obeyed
from tcprobe.probes.sparse_images import metadata_images
from tcprobe.probes.wgmma import (
    Coded,
    Ints,
    digest,
    lines_of,
    meetings,
    numbered,
    of_memory,
    places,
    registers_launch,
    shared_launch,
    table_of,
)  # fmt: skip
from tcprobe.probes.wgmma_op import FEW, FEW_MEETINGS, behind
from tcprobe.store.measurement import ADDRESSES, StructureHash


@dataclass(frozen=True)
class SparseWarpgroupExperiment(OfInstruction):
    """A wgmma.sp. A reading has "a" and "d", elements by slot; "e": by selector the field that each A slot obeys."""

    def launches(self) -> list[Launch]:
        """All D slots under one metadata; a few under all of it, for each selector; A in shared memory."""
        row, images = self.instruction, pack(metadata_images(self._rule, WARPGROUP), 4)
        slots, n = row.fragment("a").slots, row.shape.n
        few = 4 * slots * len(images) * (1 + FEW_MEETINGS)
        return [
            registers_launch(Coded(row, metadata=images), (slots, 1), 4 * slots * (1 + n)),
            *(registers_launch(Coded(row, selector=selector, flags=FEW, metadata=images), (slots, len(images)), few)
              for selector in row.fragment("e").selectors),
            shared_launch(row),
        ]  # fmt: skip

    @property
    def _rule(self) -> Sparsity:
        return sparsity(self.instruction.fragment("e"))

    def decode(self, launches: Sequence[Launch], outputs: Sequence[Bytes]) -> Reading:
        """Elements and fields; ProbeError where the answers are not those of a sparse product of matrices."""
        row = self.instruction
        d_of, b_of = meetings(row, outputs[0], row.shape.n)
        k, col, first = numbered(row, d_of, b_of)
        found = [self._obeyed(raw, d_of[:, 0], col, first, selector) for selector, raw in enumerate(outputs[1:-1])]
        stored = found[0][0]
        if any((other != stored).any() for other, _ in found):
            raise ProbeError(f"{row.name}: a selector changes which elements of A the slots are.")
        lines = lines_of(row, outputs[-1], col)
        if (lines != lines[first]).any():
            raise ProbeError(
                f"{row.name}: A in registers and A in shared memory disagree about which D slots are a row."
            )
        a = lines[d_of[:, 0]] * row.stored + stored
        fields = np.stack([field for _, field in found])
        return {**of_memory(row, a, lines * row.shape.n + col), "e": fields.astype(np.int32),
                "sha256": digest(row, d_of, k, col)}  # fmt: skip

    def _obeyed(self, raw: Bytes, first_d: Ints, col: Ints, first: Ints, selector: int) -> tuple[Ints, Ints]:
        """The stored column of every A slot, and the field that it obeys under a selector."""
        row, rule, name = self.instruction, self._rule, f"{self.instruction.name}, selector {selector}"
        d, b = meetings(row, raw, FEW_MEETINGS)
        slots = len(first_d)
        d, b = (x.reshape(-1, slots, FEW_MEETINGS) for x in (d, b))
        held = behind(row, "b_smem").held
        cols, ks = places(held.slot_bits, held.cols, held.rows)
        if (d != d[0]).any() or (first[d[0]] != first_d[:, None]).any() or (cols[b] != col[d]).any():
            raise ProbeError(f"{name}: metadata changes the row or the columns that an A slot meets.")
        by_index, field = obeyed(rule, b, WARPGROUP, name)
        met = np.where(by_index >= 0, ks[by_index], -1)
        index = np.where(by_index >= 0, np.arange(rule.positions)[None, :, None], 0)
        chunk = met.max(axis=(1, 2)) // rule.positions
        if (np.where(by_index >= 0, met != chunk[:, None, None] * rule.positions + index, False)).any():
            raise ProbeError(f"{name}: an index is not the place in a chunk that it should be.")
        return chunk * rule.fields + field % rule.fields, field

    def conclude(self, reading: Reading, context: Context) -> Conclusion:
        """Tables by the addresses of shared memory; that of the metadata by what its fields govern."""
        row = self.instruction
        tables = {o: table_of(row.fragment(o).cols, row.fragment(o).elements, reading[o].tobytes()) for o in "ad"}
        e = selected([self._governed(reading["a"], field) for field in reading["e"]])
        hashed = StructureHash(row.triples, reading["sha256"].tobytes().hex())
        return Conclusion({**tables, "e": e}, ADDRESSES, hashed)

    def _governed(self, elements: Ints, field: Ints) -> Table:
        """By field the element of A that it governs."""
        e = self.instruction.fragment("e")
        found = np.full(e.slots, -1)
        found[field] = elements
        if (found[field] != elements).any():
            raise ProbeError(f"{self.instruction.name}: a field of the metadata governs two elements of A.")
        cells = [None if x < 0 else divmod(x, e.cols) for x in found.tolist()]
        values = {n: tuple(None if cell is None else cell[j] for cell in cells) for j, n in enumerate(("row", "col"))}
        return slot_table(e.threads, e.elements, values)


def experiments() -> list[SparseWarpgroupExperiment]:
    """One for each wgmma.sp, wherever A is."""
    forms = (part for part in inventory.instructions().parts if isinstance(part, Forms))
    return [SparseWarpgroupExperiment(row) for part in forms for row in part.values() if row.metadata]
