"""Operands of tcgen05.mma in tensor memory, measured by numbers and by one-hot operands; where tcgen05.cp writes.

    tcprobe run --family tensor_memory

- D: first A encodes the numbers of its elements and B has a single one in each column, which shows the element of A
  that each cell of D met. Then B encodes its numbers and A has a single one in each row. Both must agree about k. The
  row of a cell follows from A's address, its column from B's. Cells that do not answer are not part of D
- A in tensor memory: every part of a cell encodes its number. B has a single one in each column, shifted until each k
  has met each quarter of the columns
- scales: every byte encodes its number by powers of two; A is one in the k of one block
- E: every four bits encode their number, by picking the first or the last elements of a chunk. A is one in one stored
  column of each chunk, each column of B in one chunk. A last image tells the index fields of four bits apart

Of what a multiply reads, a place counts if some element of D was computed from it. Only the layout of A and B in shared
memory is assumed (`tensor_multiply_kernels`): descriptors' packed layout, whose addresses are those of rows, columns
and k.

On a GPU with tcgen05, a run without `family` makes these findings too. D depends on M, N and type: it is measured for
every M, with the least, the largest and some N between. What does not depend on N is measured once for each M.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from tcprobe.errors import ProbeError
from tcprobe.isa import inventory
from tcprobe.isa.arch import Target
from tcprobe.isa.bit_fields import descriptor_fields
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.instruction import Instruction
from tcprobe.layout.arrays import Array, Ints
from tcprobe.layout.descriptor import encode_tcgen05, packed_descriptor
from tcprobe.layout.table import cell_runs
from tcprobe.probes import tensor_multiply_kernels as images
from tcprobe.probes.experiment import Bench, Context, Dialogue, FormDialogue, Readout
from tcprobe.probes.ptx import POISON, Kernel, Launch
from tcprobe.probes.tensor_multiply_kernels import (
    FIRST_HALF,
    LAST_HALF,
    PLAN,
    REGION,
    SHARED_BYTES,
    SizedMultiply,
    copy_kernel,
    multiply_kernel,
    numbers,
)
from tcprobe.references.tensor_memory import BYTE, CELL, LANES, selectors, vectors
from tcprobe.store.kinds.tensor_memory import KIND as TENSOR_MEMORY
from tcprobe.store.kinds.tensor_memory import USUAL_N, Body, Subject

FIELDS_APART = 0xC  # of two index fields the low one picks the first element, the high one the last


class Inputs(NamedTuple):
    """Matrices A (count, M, stored) and B (count, N, k) of zeros and ones, and images of tensor memory.

    `image_numbers` has, for each run, which image of A, of B and of tensor memory it takes.
    """

    a: Ints
    b: Ints
    tensor_words: Array
    image_numbers: Sequence[tuple[int, int, int]]


def launch(sized: SizedMultiply, multiply_inputs: Inputs) -> Launch:
    """One launch of all runs."""
    a, b, words, numbers = multiply_inputs
    shared = [images.shared_images(sized, name, matrices) for name, matrices in (("a", a), ("b", b))]
    memory = np.ascontiguousarray(words, np.uint32).view(np.uint8).reshape(len(words), -1)
    inputs, blocks = (images.plan(sized, numbers, sized.n), *shared, memory), len(numbers) * sized.ctas
    kernel, size = multiply_kernel(sized.row, sized.a_in_tensor, sized.vector), blocks * LANES * sized.n * 4
    return Launch(kernel, (blocks, 1, 1), inputs, 0, size, LANES, SHARED_BYTES)


def answers(sized: SizedMultiply, bench: Bench, multiply_inputs: Inputs) -> Array:
    """By run, the contents of all parts of cells as wide as D's type: (runs, parts), by CTA, then lane."""
    word = np.uint16 if sized.d_type == "f16" else np.uint32
    raw = bench.run([launch(sized, multiply_inputs)])[0].copy()
    return raw.view(word).reshape(len(multiply_inputs.image_numbers), -1)


def _d_parts(sized: SizedMultiply, bench: Bench, parts_of_d: Ints, multiply_inputs: Inputs) -> Array:
    """What each element of D becomes under all images of tensor memory, by setting of A and B: (.., images, M, N)."""
    parts = answers(sized, bench, multiply_inputs)
    return parts.reshape(-1, len(multiply_inputs.tensor_words), parts.shape[1])[..., parts_of_d]


def decode_codes(cell_parts: Array, high: int, low: int) -> tuple[Ints, Array]:
    """(the number that each part encodes, whether it answered), from images of `codes`.

    `cell_parts` are (..., images, parts); `high` and `low` are the values of one and zero.
    """
    answered = (
        (cell_parts[..., 0, :] == high)
        & (cell_parts[..., -1, :] == low)
        & np.isin(cell_parts, (high, low)).all(axis=-2)
    )
    bits = cell_parts[..., 1:-1, :] == high
    numbers: Ints = (bits << np.arange(bits.shape[-2])[:, None]).sum(axis=-2)
    return numbers, answered


def codes(count: int) -> Ints:
    """By image and element number: one; then bits 0, 1, ... of the number; then zero."""
    numbers = np.arange(count)
    planes = [numbers >> bit & 1 for bit in range(max(1, (count - 1).bit_length()))]
    return np.stack([np.ones_like(numbers), *planes, np.zeros_like(numbers)])


def element_parts(sized: SizedMultiply, bench: Bench) -> Ints:
    """A part that holds each element of D: (M, N); ProbeError as `d_parts_of`."""
    row, col, number = d_parts_of(sized, bench)
    part_of_element = np.full((sized.m, sized.n), -1)
    part_of_element[row, col] = number
    return part_of_element


def d_parts_of(sized: SizedMultiply, bench: Bench) -> tuple[Ints, Ints, Ints]:
    """(row, column, number) of every part that holds an element of D.

    ProbeError unless every element has a part, and A and B agree about k.
    """
    high = dtype(sized.d_type).one
    element_and_answered = []
    for inputs, shifts in _coded_inputs(sized):
        parts = answers(sized, bench, inputs)
        element_and_answered.append(decode_codes(parts.reshape(shifts, -1, parts.shape[1]), high, 0))
    (of_a, by_a), (of_b, by_b) = element_and_answered
    used = by_a[0]
    if not (used.any() and (by_a == used).all() and (by_b == used).all()):
        raise ProbeError(f"{sized.row.name}: cells answer in some images of A and B only.")
    row, stored = np.divmod(of_a[:, used], sized.stored)
    col, k = np.divmod(of_b[:, used], sized.k)
    fits = (row == row[0]).all() and (col == col[0]).all() and row.max() < sized.m and col.max() < sized.n
    turns = np.arange(len(row))[:, None]
    fits = fits and (stored == (col[0] + turns * sized.n) % sized.stored).all()
    fits = fits and (k == sized.first_k[(row[0] + np.arange(len(k))[:, None] * sized.m) % sized.stored]).all()
    if not fits:
        raise ProbeError(f"{sized.row.name}: A and B disagree about k, or a cell of D is of several rows or columns.")
    answered = len(set(zip(row[0].tolist(), col[0].tolist(), strict=True)))
    if answered < sized.m * sized.n:
        raise ProbeError(f"{sized.row.name}: cells answer for {answered} of {sized.m * sized.n} elements of D.")
    return row[0], col[0], np.flatnonzero(used)


def _coded_inputs(sized: SizedMultiply) -> Iterator[tuple[Inputs, int]]:
    """(inputs in which A, then B, encodes its numbers; how many matrices of ones the other one has)."""
    a, b = codes(sized.m * sized.stored), codes(sized.n * sized.k)
    in_a, in_b = (ones(lines, sized.stored, -(-sized.stored // lines)) for lines in (sized.m, sized.n))
    whole = np.zeros((len(in_b), sized.n, sized.k), np.int64)
    whole[:, :, sized.first_k] = in_b
    memory = images.tensor_image(sized)[None]
    each = [(i, o, 0) for o in range(len(whole)) for i in range(len(a))]
    yield Inputs(a.reshape(-1, sized.m, sized.stored), whole, memory, each), len(whole)
    each = [(o, i, 0) for o in range(len(in_a)) for i in range(len(b))]
    yield Inputs(in_a, b.reshape(-1, sized.n, sized.k), memory, each), len(in_a)


def ones(line_count: int, k: int, shifts: int, step: int | None = None) -> Ints:
    """Matrices with a single one in each line: in matrix y, line l has it at (l + y * step) % k; `step` defaults to
    `line_count`.
    """
    k_of_line = (np.arange(line_count) + np.arange(shifts)[:, None] * (line_count if step is None else step)) % k
    matrices: Ints = (np.arange(k) == k_of_line[..., None]).astype(np.int64)
    return matrices


def places_of_a(sized: SizedMultiply, bench: Bench) -> Ints:
    """The places of A in tensor memory: rows of (row, col, CTA, lane, bit); ProbeError if a product follows no part."""
    parts_of_d = element_parts(replace(sized, a_in_tensor=False), bench)
    memory = images.encode_parts(sized, "a", sized.bits, sized.one, 0)
    step = sized.n // 4  # each k is met in every quarter of the columns, which may read copies of their own
    shifts = -(-sized.stored // step)
    b = np.zeros((shifts, sized.n, sized.k), np.int64)
    b[:, :, sized.first_k] = ones(sized.n, sized.stored, shifts, step)
    which = [(0, shift, image) for shift in range(shifts) for image in range(len(memory))]
    inputs = Inputs(np.zeros((1, sized.m, sized.stored), np.int64), b, memory, which)
    number = _numbers(sized, "A", _d_parts(sized, bench, parts_of_d, inputs), (dtype(sized.d_type).one, 0))
    row, col = np.indices(parts_of_d.shape)
    stored = (col + step * np.arange(shifts)[:, None, None]) % sized.stored
    return _places(sized, sized.bits, np.broadcast_to(row, number.shape), stored, number)


def places_of_scales(sized: SizedMultiply, bench: Bench, name: str) -> Ints:
    """As `places_of_a`, for scale_a or scale_b."""
    parts_of_d = element_parts(sized, bench)
    one_bits, two_bits = (dtype(sized.scale_type).pattern(value, BYTE) for value in (1, 2))
    memory = images.encode_parts(sized, name, BYTE, two_bits, one_bits)
    each = sized.k // sized.vector
    stored = np.arange(sized.stored)
    a = np.zeros((sized.vector, sized.m, sized.stored), np.int64)
    for j in range(sized.vector):  # rows have their one at different k of the block
        of_block = stored[sized.first_k // each == j]
        a[j, np.arange(sized.m), of_block[np.arange(sized.m) % len(of_block)]] = 1
    which = [(j, 0, image) for j in range(sized.vector) for image in range(len(memory))]
    inputs = Inputs(a, np.ones((1, sized.n, sized.k), np.int64), memory, which)
    of_d = dtype(sized.d_type)
    two_one = (of_d.pattern(2, of_d.bits), of_d.pattern(1, of_d.bits))
    number = _numbers(sized, name, _d_parts(sized, bench, parts_of_d, inputs), two_one)
    row, col = (np.broadcast_to(line, number.shape) for line in np.indices(parts_of_d.shape))
    block = np.broadcast_to(np.arange(sized.vector)[:, None, None], number.shape)
    places_of_scale = (row, block) if name == "scale_a" else (block, col)
    return _places(sized, BYTE, *places_of_scale, number)


def places_of_e(sized: SizedMultiply, bench: Bench) -> Ints:
    """As `places_of_a`, for the metadata: the index field that selects the k of each stored element of A."""
    parts_of_d = element_parts(sized, bench)
    kept, whole, span, bits = sized.chunk
    coded = images.encode_parts(sized, "e", 4, FIRST_HALF, LAST_HALF)
    apart = images.tensor_image(sized)
    first = images.REGIONS["e"] - images.FIRST
    apart[..., first : first + images.REGION] = (FIELDS_APART if bits < 4 else FIRST_HALF) * 0x11111111
    memory = np.concatenate([coded, apart[None]])
    chunk, inside = np.divmod(np.arange(sized.k), whole)
    row, col = np.indices(parts_of_d.shape)
    mine = chunk == np.arange(sized.n)[:, None] % (sized.k // whole)  # each column of B is one in one chunk alone
    b = np.stack([mine & (inside < whole // 2), mine & (inside < span)]).astype(np.int64)
    a = (np.arange(sized.stored) % kept == np.arange(kept)[:, None, None]).astype(np.int64).repeat(sized.m, axis=1)
    which = [(j, int(image == len(coded)), image) for j in range(kept) for image in range(len(memory))]
    parts = _d_parts(sized, bench, parts_of_d, Inputs(a, b, memory, which))
    high_low = dtype(sized.d_type).one, 0
    number = _numbers(sized, "E", parts[:, :-1], high_low) * (4 // bits)
    if bits < 4:  # the lower of two fields picked the first element, where B is one
        number = number + (parts[:, -1] != high_low[0])
    stored = col % (sized.k // whole) * kept + np.arange(kept)[:, None, None]
    return _places(sized, bits, np.broadcast_to(row, number.shape), stored, number)


def _numbers(sized: SizedMultiply, name: str, cell_parts: Array, high_low: tuple[int, int]) -> Ints:
    """The number of the part that each element of D follows, by run; ProbeError if a single part cannot give D."""
    shape = cell_parts.shape
    numbers, answered = decode_codes(cell_parts.reshape(*shape[:2], -1), *high_low)
    if not answered.all():
        raise ProbeError(
            f"{sized.row.name}: {(~answered).sum()} of {answered.size} products do not follow one part of {name}."
        )
    part_numbers: Ints = numbers.reshape(shape[0], *shape[2:])
    return part_numbers


def _places(sized: SizedMultiply, bits: int, *of_element: Any) -> Ints:
    """Rows of (row, col, CTA, lane, bit), each once; `of_element` are rows, columns and numbers of parts."""
    row, col, number = (np.ascontiguousarray(each).reshape(-1) for each in of_element)
    return np.unique(np.stack([row, col, *images.part(sized, bits, number)], axis=1), axis=0)


def places_of_d(sized: SizedMultiply, bench: Bench) -> Ints:
    """As `places_of_a`, for D; its bits count from its first column."""
    (row, col, number), width = d_parts_of(sized, bench), dtype(sized.d_type).bits
    cta, rest = np.divmod(number, LANES * sized.n * (CELL // width))
    lane, inside = np.divmod(rest, sized.n * (CELL // width))
    return np.stack([row, col, cta, lane, inside * width], axis=1)


KIND = TENSOR_MEMORY
SOME_N = (64, 96, 128, 256)
SCALES: dict[str, tuple[int, ...]] = {"scale_a": (), "scale_b": (128,)}  # with these N and the largest
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
        return self.sized.row.target

    def kernels(self) -> list[Kernel]:
        """The form's kernel; if A is in tensor memory, also the one with A there."""
        shared = multiply_kernel(self.sized.row, False, self.sized.vector)
        return [shared, multiply_kernel(self.sized.row, True, self.sized.vector)][: 2 if self.sized.a_in_tensor else 1]

    def measure(self, bench: Bench) -> Readout:
        """ "held": rows of (row, col, CTA, lane, bit)."""
        if self.operand.startswith("scale_"):
            return {"held": places_of_scales(self.sized, bench, self.operand)}
        places = {"d": places_of_d, "a": places_of_a, "e": places_of_e}
        return {"held": places[self.operand](self.sized, bench)}

    def conclude(self, reading: Readout, context: Context) -> Body:
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
class CopyExperiment(FormDialogue):
    """tcgen05.cp of numbered words: which cells get which word."""

    multicast: str
    kind = KIND

    @property
    def id(self) -> str:
        """The subject, as `Subject` writes it."""
        return str(Subject(self.row.id, "memory", multicast=self.multicast))

    def kernels(self) -> list[Kernel]:
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
    sizes = [int(n) for n in instruction.stated["n_values"]]
    fields = {field.name: field for field in descriptor_fields(instruction.kind or "")}
    for m in map(int, instruction.stated["m_values"]):
        for n in (n for n in sizes if n in (sizes[0], sizes[-1], *SOME_N)):
            for kind in ("f32",) if scaled != (0,) else map(str, instruction.stated["d_types"]):
                yield PlaceExperiment("d", SizedMultiply(instruction, m, n, kind, scaled[0]))
        wide = next(str(name) for name in instruction.stated["d_types"] if name != "f16")
        yield PlaceExperiment("a", SizedMultiply(instruction, m, USUAL_N, wide, scaled[0], a_in_tensor=True))
        if "e" in names:
            for selector in selectors(instruction, "e"):
                yield PlaceExperiment("e", SizedMultiply(instruction, m, USUAL_N, wide, scaled[0], "e", selector))
        for vector, (name, some_n) in product(scaled if any(scaled) else (), SCALES.items()):
            field = fields["a_scale_id" if name == "scale_a" else "b_scale_id"]
            selectable = [number for number in selectors(instruction, name, vector) if number in field.documented]
            for n, selector in product((*some_n, sizes[-1]), selectable):
                yield PlaceExperiment(name, SizedMultiply(instruction, m, n, "f32", vector, name, selector))
