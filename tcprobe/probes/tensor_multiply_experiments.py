"""Where operands of tcgen05.mma are in tensor memory, and where tcgen05.cp writes.

    tcprobe run --family tensor_memory

On a GPU with tcgen05, a run without `family` makes these findings too. D depends on M, N and type: it is measured for
every M, with the least, the largest and some N between. What does not depend on N is measured once for each M.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from tcprobe.errors import ProbeError
from tcprobe.isa import inventory
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.instruction_descriptor import word
from tcprobe.isa.target import Target
from tcprobe.layout.arrays import Ints
from tcprobe.layout.descriptor import encode_tcgen05, packed_descriptor
from tcprobe.layout.runs import cell_runs
from tcprobe.probes import tensor_multiply
from tcprobe.probes.experiment import Bench, Context, Dialogue, Readout
from tcprobe.probes.ptx import POISON, Kernel, Launch
from tcprobe.probes.tensor_multiply_images import PLAN, REGION, SizedMultiply, numbers
from tcprobe.probes.tensor_multiply_kernels import SHARED_BYTES, copy_kernel, multiply_kernel
from tcprobe.references.memory_operand import BYTE, CELL, LANES, selectors, vectors
from tcprobe.store.kinds.tensor_memory import KIND as TENSOR_MEMORY
from tcprobe.store.kinds.tensor_memory import USUAL_N, Body, Subject

KIND = TENSOR_MEMORY
SOME_N = (64, 96, 128, 256)
SOURCE_BYTES = 8 << 10  # of the image that tcgen05.cp copies from


def _body(rows: int, cols: int, bits: int, held_rows: Ints) -> Body:
    places = [(row, col, cta, lane, bit) for row, col, cta, lane, bit in held_rows.tolist()]
    return Body(rows, cols, bits, [run[:] for run in cell_runs(places)])


@dataclass(frozen=True)
class PlaceExperiment(Dialogue):
    """An operand of a multiply."""

    operand: str
    sized: SizedMultiply
    kind = KIND

    @property
    def id(self) -> str:
        """The subject, as `Subject` writes it."""
        sized, of_d = self.sized, self.operand == "d"
        kind = sized.d_type if of_d else ""
        vector = sized.vector if self.operand.startswith("scale_") else 0
        return str(Subject(sized.row.id, self.operand, sized.m, sized.n, kind, vector, sized.selector))

    @property
    def target(self) -> Target:
        """The target that the form needs."""
        return self.sized.row.target

    def kernels(self) -> list[Kernel]:
        """The form's kernel; if A is in tensor memory, also the one with A there."""
        shared = multiply_kernel(self.sized.row, False, self.sized.vector)
        return [shared, multiply_kernel(self.sized.row, True, self.sized.vector)][: 2 if self.sized.a_in_tensor else 1]

    def measure(self, bench: Bench) -> Readout:
        """ "held": rows of (row, col, CTA, lane, bit)."""
        if self.operand.startswith("scale_"):
            return {"held": tensor_multiply.places_of_scales(self.sized, bench, self.operand)}
        places = {"d": tensor_multiply.places_of_d, "a": tensor_multiply.places_of_a, "e": tensor_multiply.places_of_e}
        return {"held": places[self.operand](self.sized, bench)}

    def conclude(self, reading: Readout, context: Context) -> Body:
        """The places."""
        sized = self.sized
        size, bits = {
            "d": ((sized.m, sized.n), dtype(sized.d_type).bits),
            "a": ((sized.m, sized.stored), sized.bits),
            "e": ((sized.m, sized.stored), sized.chunk[3]),
            "scale_a": ((sized.m, sized.vector), BYTE),
            "scale_b": ((sized.vector, sized.n), BYTE),
        }[self.operand]
        return _body(*size, bits, reading["held"])


@dataclass(frozen=True)
class CopyExperiment(Dialogue):
    """tcgen05.cp of numbered words: which cells get which word."""

    row: Instruction
    multicast: str
    kind = KIND

    @property
    def id(self) -> str:
        """The subject, as `Subject` writes it."""
        return str(Subject(self.row.id, "memory", multicast=self.multicast))

    @property
    def target(self) -> Target:
        """The target that the form needs."""
        return self.row.target

    def kernels(self) -> list[Kernel]:
        """The form's kernel."""
        return [copy_kernel(self.row, self.multicast)]

    def launch(self) -> Launch:
        """One block; every word of shared memory has its number."""
        words = np.zeros(PLAN, np.uint32)
        descriptor = encode_tcgen05(packed_descriptor(self.row.shape.n * CELL // BYTE))
        words[4:8] = np.array([descriptor, descriptor], np.uint64).view(np.uint32)
        words[8], words[11] = SOURCE_BYTES, 2 * REGION
        source = np.arange(1, SOURCE_BYTES // 4 + 1, dtype=np.uint32).view(np.uint8).reshape(1, -1)
        nothing = np.zeros((1, 16), np.uint8)
        inputs = (words.view(np.uint8).reshape(1, -1), source, nothing, nothing)
        return Launch(self.kernels()[0], (1, 1, 1), inputs, 0, LANES * 2 * REGION * 4, LANES, SHARED_BYTES)

    def measure(self, bench: Bench) -> Readout:
        """ "held": rows of (row, col, CTA, lane, bit); ProbeError if a cell has no word of the source."""
        cells = bench.run([self.launch()])[0].copy().view(np.uint32).reshape(LANES, -1)
        lane, column = np.nonzero(cells != POISON * 0x01010101)
        rows, cols = self.row.shape.m, self.row.shape.n
        element = {int(word) + 1: number for number, word in enumerate(numbers(CELL, rows, cols).tolist())}
        elements = [element.get(int(word), -1) for word in cells[lane, column]]
        if set(elements) != set(range(rows * cols)):
            raise ProbeError(
                f"{self.row.name}: {len(elements)} cells do not hold the {rows} x {cols} words of the source."
            )
        row, col = np.divmod(np.array(elements), cols)
        return {"held": np.stack([row, col, np.zeros_like(row), lane, column * CELL], axis=1)}

    def conclude(self, reading: Readout, context: Context) -> Body:
        """The places."""
        return _body(self.row.shape.m, self.row.shape.n, CELL, reading["held"])


def experiments() -> list[Dialogue]:
    """Copies; then operands of multiplies, D before what is read with its help."""
    rows = [row for row in inventory.of_family("tcgen05") if not row.fragments]
    copies = [
        CopyExperiment(row, str(name))
        for row in rows
        if row.id.startswith("tcgen05.cp.")
        for name in row.stated.get("multicast", ("",))
    ]
    return [*copies, *(experiment for row in rows if row.multiplies for experiment in _place_experiments(row))]


def _place_experiments(instruction: Instruction) -> Iterator[Dialogue]:
    names = {operand.name for operand in instruction.operands}
    scaled = vectors(instruction) if "scale_a" in names else (0,)
    for m in map(int, instruction.stated["m_values"]):
        for n in _some(instruction):
            for kind in ("f32",) if scaled != (0,) else map(str, instruction.stated["d_types"]):
                yield PlaceExperiment("d", SizedMultiply(instruction, m, n, kind, scaled[0]))
        wide = next(str(name) for name in instruction.stated["d_types"] if name != "f16")
        yield PlaceExperiment("a", SizedMultiply(instruction, m, USUAL_N, wide, scaled[0], a_in_tensor=True))
        if "e" in names:
            for selector in selectors(instruction, "e"):
                yield PlaceExperiment("e", SizedMultiply(instruction, m, USUAL_N, wide, scaled[0], "e", selector))
        yield from _scales(instruction, m) if scaled != (0,) else ()


def _scales(instruction: Instruction, m: int) -> Iterator[Dialogue]:
    largest = int(instruction.stated["n_values"][-1])
    for vector in vectors(instruction):
        for name, sizes in (("scale_a", (largest,)), ("scale_b", (128, largest))):
            for n, selector in product(sizes, _selectable(instruction, name, vector)):
                yield PlaceExperiment(name, SizedMultiply(instruction, m, n, "f32", vector, name, selector))


def _some(instruction: Instruction) -> list[int]:
    """The least N, the largest, and some between."""
    n_values = [int(n) for n in instruction.stated["n_values"]]
    return [n for n in n_values if n in (n_values[0], n_values[-1], *SOME_N)]


def _selectable(instruction: Instruction, name: str, vector: int) -> list[int]:
    """The selectors of scales that the kind's instruction descriptor has too."""
    fields = {field.name: field for field in word(instruction.kind or "")}
    there = fields["a_scale_id" if name == "scale_a" else "b_scale_id"].documented
    return [selector for selector in selectors(instruction, name, vector) if selector in there]
