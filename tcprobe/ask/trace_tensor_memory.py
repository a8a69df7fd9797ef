"""What feeds an element of D in tensor memory: where A, B, metadata and scale factors of each product are.

>>> from tcprobe.isa import inventory
>>> form = inventory.instructions()["tcgen05.mma.cta_group::2.kind::f16"]
>>> found = trace_element(form, TensorTraceRequest(m=128, n=256), 70, 200)
>>> found.d[0], found.meetings[9].a_byte, found.meetings[9].b_bytes, found.b_cta
(TensorCell(cta=1, lane=70, column=72, bit=0), 226, (2434,), 1)

Bytes count from the start addresses of the descriptors. Cells are the measured ones where there are any,
else documented ones; bytes behind descriptors are documented. Each of two CTAs has half of the rows of A and half of
the columns of B: CUTLASS, mma_traits_sm100.hpp, ALayout and BLayout of 2x1SM.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, NamedTuple

from tcprobe.ask.operand import MajorName
from tcprobe.ask.tensor_memory import MemoryOperand, OperandVariant, Placement, Status, cells_in_words, placement
from tcprobe.errors import UsageError
from tcprobe.isa.instruction import Instruction
from tcprobe.layout import descriptor as smem
from tcprobe.layout.descriptor import UNIT, Descriptor, offsets, packed_descriptor
from tcprobe.question.answers import UNSET, Answer, Meta, UnsetType, plain
from tcprobe.references.tensor_memory import WIDTHS, Landing, Slot, TensorCell, selectors, slot_of_load, vectors
from tcprobe.store.choose import Layers
from tcprobe.text import Whole
from tcprobe.values import Json

BYTE = 8
# stored elements of a chunk of A, and the elements that they are some of (PTX ISA 9.1, section 9.7.16.10.8)
CHUNKS = {"tf32": (1, 2), "mxf4": (4, 8), "mxf4nvf4": (4, 8)}
OTHER_CHUNK = (2, 4)


class TensorTraceRequest(NamedTuple):
    """M and N, the usual by default; the swizzle of A and B; A in tensor memory; selector and scales of a row; what of
    A and of B is contiguous, k or mn; the shape and repetitions of the tcgen05.ld that reads D; what is known, and of
    which archs (`OperandVariant`)."""

    m: int | None = None
    n: int | None = None
    swizzle: int = 0
    a_in_tensor: bool = False
    selector: int | None = None
    vector: int | None = None
    majors: tuple[str, str] = ("k", "k")
    load: tuple[str, int] | None = None
    layers: Layers | None = None
    name: str | None = None


class TensorMeeting(NamedTuple):
    """A[row][stored] meets B[k][col], of a sparse form one of several k; A lies at `a_byte`, or in cells.

    `e` are the cells of the index that says which k, `scales` those of the factors of A and B, by operand.
    """

    stored: int
    k: tuple[int, ...]
    a_byte: int | None
    a: tuple[TensorCell, ...]
    b_bytes: tuple[int, ...]
    e: tuple[TensorCell, ...]
    scales: dict[str, tuple[int, int, tuple[TensorCell, ...]]]

    @property
    def answer(self) -> TensorMeetingAnswer:
        """What `--json` prints of it."""
        scales = {name: ScaleCells(*scale) for name, scale in self.scales.items()}
        return TensorMeetingAnswer.of(self, a_offset=self.a_byte, b_offsets=self.b_bytes, scales=scales)


class ScaleCells(Answer):
    """A scale factor, and its cells."""

    row: int
    col: int
    tmem: tuple[TensorCell, ...]


class TensorMeetingAnswer(Answer):
    """An element of A, in cells or at byte `a_offset`, and those of B that it may meet; `e` has the index that says
    which.
    """

    stored: int
    k: tuple[int, ...]
    a_offset: int | None
    a: tuple[TensorCell, ...]
    b_offsets: tuple[int, ...]
    e: tuple[TensorCell, ...]
    scales: dict[str, ScaleCells]


class TensorTraceAnswer(Answer, kw_only=True):
    """Of tcgen05.mma: cells of tensor memory, and bytes of shared memory from the start addresses on."""

    instruction: str
    status: Status
    m: int
    n: int
    row: int
    col: int
    d: tuple[TensorCell, ...]
    loaded: Annotated[Slot, Meta(description="with --ld: where the load leaves D")] | UnsetType = UNSET
    majors: Annotated[tuple[MajorName, MajorName], Meta(description="what of A and of B is contiguous")]
    descriptors: Annotated[list[str], Meta(description="of A and B, with start address 0")]
    a_cta: int
    b_cta: int
    meetings: list[TensorMeetingAnswer]
    source: tuple[str, ...]


class TensorTrace(NamedTuple):
    """D[row][col] of M x N in its cells; the CTAs whose shared memory A and B are in; products in the order of A.

    `descriptors` are those of A and B, with what is contiguous; `loaded` is the register that a load leaves D in.
    """

    form: Instruction
    placed_d: Placement
    row: int
    col: int
    descriptors: tuple[Descriptor, Descriptor]
    a_cta: int
    b_cta: int
    meetings: tuple[TensorMeeting, ...]
    sources: tuple[str, ...]
    majors: tuple[str, str] = ("k", "k")
    loaded: Slot | None = None
    is_measured: bool = False

    @property
    def status(self) -> str:
        """That of the cells."""
        return "measured" if self.is_measured else "documented"

    @property
    def d(self) -> tuple[TensorCell, ...]:
        """The cells of the element."""
        return self.placed_d.places(self.row, self.col)

    @property
    def about(self) -> str:
        """The element."""
        return f"D[{self.row}][{self.col}]"

    @property
    def in_words(self) -> Iterator[str]:
        """The cells, a line for each product with its factors, the descriptors, and what it rests on."""
        placed = self.placed_d
        yield f"{self.about} in {self.form.id}, M {placed.m}, N {placed.n}: {cells_in_words(self.d)}"
        if self.loaded:
            yield Whole(f"  loaded: {', '.join(f'{name} {at}' for name, at in self.loaded._asdict().items())}")
        yield from map(self._product, self.meetings)
        a, b = (f"{smem.encode_tcgen05(descriptor):#018x}" for descriptor in self.descriptors)
        shared = f"B behind {b}" if self.meetings[0].a else f"A behind {a}, B behind {b}"
        a, b = (major.replace("mn", name) for major, name in zip(self.majors, "mn", strict=True))
        yield f"{shared} with start addresses added, {f'{a} of A and {b} of B' if a != b else a} contiguous"
        by = "; ".join(self.sources)
        yield f"cells {by}" if self.is_measured else f"documented only, by {by}"

    def _product(self, meeting: TensorMeeting) -> Whole:
        """A and B of a product, with the index and the scales of it, the first place of each: warps have the same."""
        a_cta, b_cta = (f" of cta {cta}" if "cta_group::2" in self.form.id else "" for cta in (self.a_cta, self.b_cta))
        a = cells_in_words(meeting.a) if meeting.a_byte is None else f"at byte {meeting.a_byte}{a_cta}"
        b = ", ".join(f"B[{k}][{self.col}] at byte {byte}" for k, byte in zip(meeting.k, meeting.b_bytes, strict=True))
        factors = [f"index {cells_in_words(meeting.e[:1])}"] if meeting.e else []
        for name, (row, col, cells) in meeting.scales.items():
            factors.append(f"{name.upper()}[{row}][{col}] {cells_in_words(cells[:1])}")
        more = f"  ({'; '.join(factors)})" if factors else ""
        return Whole(f"  A[{self.row}][{meeting.stored}] {a}  x  {b}{b_cta}{more}")

    def to_json(self) -> Json:
        answer = TensorTraceAnswer.of(
            self,
            instruction=self.form.id,
            m=self.placed_d.m,
            n=self.placed_d.n,
            loaded=self.loaded or UNSET,
            descriptors=[f"{smem.encode_tcgen05(descriptor):#018x}" for descriptor in self.descriptors],
            meetings=[meeting.answer for meeting in self.meetings],
            source=self.sources,
        )
        return plain(answer)


def trace_element(instruction: Instruction, trace_request: TensorTraceRequest, row: int, col: int) -> TensorTrace:
    """What feeds D[row][col]; UsageError for an element, sizes, scales or a selector that the form does not have."""
    if "m_values" not in instruction.stated:
        raise UsageError(f"`instruction` {instruction.id} is no multiply of tensor memory.")
    operands = _Operands(instruction, trace_request)
    operands.d.places(row, col)
    paired = "cta_group::2" in instruction.id
    a_cta, line = divmod(row, operands.d.m // 2) if paired else (0, row)
    b_cta, column = divmod(col, operands.d.n // 2) if paired else (0, col)
    stored_columns = next(o.cols for o in instruction.operands if o.name == "a")
    meetings = []
    for stored in range(stored_columns):
        k = _candidates(instruction, stored)
        meetings.append(
            TensorMeeting(
                stored,
                k,
                None if operands.a else operands.byte(0, line, stored),
                operands.a.places(row, stored) if operands.a else (),
                tuple(operands.byte(1, column, each) for each in k),
                operands.e.places(row, stored) if operands.e else (),
                operands.scales(row, col, k[0]),
            )
        )
    first = operands.d.places(row, col)[0]
    landing = Landing(first.cta, first.lane, first.column)
    return TensorTrace(
        instruction,
        operands.d,
        row,
        col,
        operands.descriptors,
        a_cta,
        b_cta,
        tuple(meetings),
        operands.sources,
        trace_request.majors,
        slot_of_load(landing, *trace_request.load) if trace_request.load else None,
        all(operand.measured_places for operand in operands.in_tensor_memory),
    )


class _Operands:
    """The operands of a form, in the variant of a request."""

    def __init__(self, instruction: Instruction, trace_request: TensorTraceRequest) -> None:
        self.form, self.bits = instruction, WIDTHS.get(instruction.kind or "", BYTE)
        names = {operand.name for operand in instruction.operands}
        self.scaled = tuple(name for name in ("scale_a", "scale_b") if name in names)
        self.vector = _vector(instruction, trace_request.vector) if self.scaled else 0
        selected = trace_request.selector or 0
        if trace_request.selector is not None and not (self.scaled or "e" in names):
            raise UsageError(f"{instruction.id} has no selector: remove `selector`.")

        def operand(name: str, vector: int = 0) -> Placement:
            selector = selected if selected in selectors(instruction, name, vector) or name == self._chosen else 0
            size = (trace_request.m, trace_request.n, selector, vector)
            return placement(
                MemoryOperand(instruction, name),
                OperandVariant(*size, layers=trace_request.layers, name=trace_request.name),
            )

        self._chosen = self.scaled[0] if self.scaled else "e"
        self.d = operand("d")
        self.a = operand("a") if trace_request.a_in_tensor else None
        self.e = operand("e") if "e" in names else None
        self._scales = {name: operand(name, self.vector) for name in self.scaled}
        self.majors = trace_request.majors
        a, b = (o.cols if o.name == "a" else o.rows for o in instruction.operands if o.name in ("a", "b"))
        ctas = 1 + ("cta_group::2" in instruction.id)
        self.descriptors = (
            _descriptor(instruction, "A", (self.d.m // ctas, a), trace_request),
            _descriptor(instruction, "B", (self.d.n // ctas, b), trace_request),
        )

    @property
    def sources(self) -> tuple[str, ...]:
        """Whom it rests on."""
        return tuple(
            dict.fromkeys([*(operand.statement.source for operand in self.in_tensor_memory), smem.TCGEN05_SOURCE])
        )

    @property
    def in_tensor_memory(self) -> list[Placement]:
        """What is in tensor memory."""
        return [operand for operand in (self.d, self.a, self.e, *self._scales.values()) if operand]

    def byte(self, which: int, line: int, k: int) -> int:
        """Where an element of A (0) or B (1) begins in shared memory, from the start address on."""
        return int(offsets(self.descriptors[which], self.majors[which], line, k, self.bits))

    def scales(self, row: int, col: int, k: int) -> dict[str, tuple[int, int, tuple[TensorCell, ...]]]:
        """Row, column and cells of the factors that scale k, by operand."""
        block = k * self.vector // self.form.shape.k
        elements = {"scale_a": (row, block), "scale_b": (block, col)}
        return {name: (*elements[name], operand.places(*elements[name])) for name, operand in self._scales.items()}


def _descriptor(
    instruction: Instruction, matrix: str, size: tuple[int, int], trace_request: TensorTraceRequest
) -> Descriptor:
    """Of `size` lines x k of A or B, as one multiply of one CTA takes them.

    With k contiguous lines follow each other, or each is in a row of a pattern; with mn contiguous rows of the pattern
    hold lines, k by k. UsageError where no row is long enough, or PTX has no such major.
    """
    (lines, k), bits, swizzle = size, WIDTHS.get(instruction.kind or "", BYTE), trace_request.swizzle
    if trace_request.majors["AB".index(matrix)] == "mn":
        _check_mn(instruction, matrix)
        if lines * bits // 8 % (swizzle or UNIT):
            raise UsageError(
                f"`swizzle` {swizzle or 'none'}: the {lines} lines of {matrix} are {lines * bits // 8} bytes, not "
                f"whole rows of {swizzle or UNIT}; use a narrower `swizzle`."
            )
        return Descriptor(swizzle * k, 8 * swizzle, swizzle) if swizzle else Descriptor(8 * UNIT, UNIT * k)
    k_bytes = k * bits // 8
    if not swizzle:
        return packed_descriptor(k_bytes)
    if k_bytes > swizzle:
        wide = next(width for width in (64, 128) if width >= k_bytes)
        raise UsageError(
            f"`swizzle` {swizzle}: the {k_bytes} bytes of k of one multiply are not a row; use `swizzle` {wide}."
        )
    return Descriptor(UNIT, 8 * swizzle, swizzle)


def _check_mn(instruction: Instruction, matrix: str) -> None:
    if instruction.kind == "tf32":
        raise UsageError(
            f"{matrix} of tf32 with lines contiguous takes 128-byte swizzle in atoms of 32 bytes only (PTX ISA 9.1, "
            "section 9.7.16.4.2), whose bytes tcprobe does not describe: use `major` k."
        )
    if WIDTHS.get(instruction.kind or "", BYTE) < BYTE:
        raise UsageError(f"kind::{instruction.kind} takes {matrix} with k contiguous only: use `major` k.")


def _vector(instruction: Instruction, asked_for: int | None) -> int:
    """How many scales a row has; UsageError where that is not said and not plain."""
    sizes = vectors(instruction)
    if asked_for is None and len(sizes) == 1:
        return sizes[0]
    if asked_for not in sizes:
        raise UsageError(
            f"{instruction.id} has {' or '.join(map(str, sizes))} scales per row: give `vector` {sizes[-1]}."
        )
    return asked_for


def _candidates(instruction: Instruction, stored: int) -> tuple[int, ...]:
    """The k that a stored element of A can stand for: its chunk; of 4-bit types, stored in pairs, of its parity."""
    if not any(operand.name == "e" for operand in instruction.operands):
        return (stored,)
    kept, whole = CHUNKS.get(instruction.kind or "", OTHER_CHUNK)
    first = stored // kept * whole
    step = 2 if kept > OTHER_CHUNK[0] else 1
    return tuple(range(first + stored % step, first + whole, step))
