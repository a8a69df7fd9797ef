"""Operands of wgmma in shared memory, behind descriptors: the byte of every element, the formula, what it feeds.

>>> from tcprobe.ask.shared_operand import shared_map
>>> from tcprobe.isa.names import resolve
>>> from tcprobe.store.choose import alone
>>> from tcprobe.store.results import published
>>> one = resolve("wgmma.m64n24k16.f32.bf16.bf16.b_smem").shared_operand
>>> found = shared_map(one, alone(published()), major="k", swizzle=128, sbo=1024)
>>> found.offsets[3][1], found.offsets[8][9]
(150, 1152)
>>> [str(element) for element in found.at(151)]
['[3][1]: bytes 150..151']
>>> from tcprobe.store.cell import operands
>>> row = resolve("wgmma.m64n24k16.f32.bf16.bf16").instruction
>>> b = shared_map(row.described[-1], alone(published()), "k", 128)
>>> memory = SharedMultiply(row, operands(row, "sm_90", published()), b)
>>> found = trace_element(memory, 3, 5)
>>> str(found.meetings[8].a[0]), found.meetings[8].k, found.meetings[8].b_offsets
('thread 12 (warp 0, lane 12) i 4 (register 2, bits 0..15)', (8,), (704,))
>>> back = fed_by_byte(memory, "b_smem", 705)
>>> back.held, len(back.meetings), str(back.meetings[3].d[0])
([(8, 5, 1)], 64, 'thread 14 (warp 0, lane 14) i 1 (register 1, bits 0..31)')
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tcprobe.ask.confidence import (
    UNMEASURED,
    Confidence,
    ConfidenceAnswer,
    WhyAnswer,
    confidence,
    least_sure,
    line,
    witnesses,
)
from tcprobe.ask.entry import SharedEntry, shared_entry
from tcprobe.ask.operand import MajorName, OperandOptions, Sought, check_warp, require_no_tensor_memory
from tcprobe.ask.registers import Holder, HolderAnswer, elements_held, where
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.arch import Arch, arch, holder_name
from tcprobe.isa.instruction import Instruction, SharedOperand, sparsity
from tcprobe.isa.names import Meaning
from tcprobe.layout.descriptor import UNIT, Descriptor, formula, offsets
from tcprobe.question.answers import UNSET, Answer, UnsetType, plain
from tcprobe.store.cell import Cell
from tcprobe.store.choose import Layers
from tcprobe.store.finding import Finding, Sourced, source_words
from tcprobe.text import Whole
from tcprobe.values import Json

if TYPE_CHECKING:
    from tcprobe.ask.absent import WhyNot

ARCH, KIND = "sm_90", "descriptors"
STATED = ("PTX ISA, section 9.7.15.5.1.2", "CUTLASS, mma_sm90_desc.hpp")
SHOWN_ROWS, SHOWN_COLUMNS = 16, 12  # of the picture in words


class ElementBytes(NamedTuple):
    """An element in shared memory: `bytes` from `offset` on, the start address counted as 0; of b1 one `bit` there."""

    row: int
    col: int
    offset: int
    bytes: int
    bit: int
    bits: int

    def __str__(self) -> str:
        if self.bits < 8:
            return f"[{self.row}][{self.col}]: byte {self.offset}, bit {self.bit}"
        last = f"s {self.offset}..{self.offset + self.bytes - 1}" if self.bytes > 1 else f" {self.offset}"
        return f"[{self.row}][{self.col}]: byte{last}"


class SharedMapAnswer(SharedEntry, kw_only=True):
    """An operand in shared memory: `offsets` has the byte of each element (row, col) from the start address on."""

    arch: str
    source: str
    major: str
    swizzle: int | Literal["none"]
    lbo: int
    sbo: int
    base_offset: int
    start: int
    descriptor: str
    offsets: list[list[int]]
    formula: str
    provenance: dict[str, Any]
    why: WhyAnswer | UnsetType = UNSET


class ElementAnswer(Answer):
    """An element and its bytes, from the start address; `bit` is its lowest in the first of them."""

    row: int
    col: int
    offset: int
    bytes: int
    bit: int


class LocatedBytesAnswer(Answer):
    """Elements of an operand in shared memory."""

    id: str
    arch: str
    source: str
    evidence: str
    confidence: ConfidenceAnswer
    descriptor: str
    major: MajorName
    elements: list[ElementAnswer]


class SharedMeetingAnswer(Answer):
    """A[row][stored] meets B[k][col] in D[row][col]: A is held by `a`, or lies at byte `a_offset`; B at `b_offsets`."""

    row: int
    stored: int
    col: int
    a: list[HolderAnswer]
    a_offset: int | None
    k: tuple[int, ...]
    b_offsets: tuple[int, ...]
    d: list[HolderAnswer]


class HeldByte(Answer):
    """An element in the byte that was asked for, and which of its bytes that is."""

    row: int
    col: int
    byte: int


class SharedTraceAnswer(Answer):
    """What feeds a D element, or what a byte of shared memory feeds, of wgmma."""

    instruction: str
    about: str
    d: list[HolderAnswer]
    held: list[HeldByte]
    meetings: list[SharedMeetingAnswer]
    descriptor: str
    major: str
    evidence: str
    confidence: ConfidenceAnswer
    a_descriptor: str | None


@dataclass(frozen=True)
class SharedMap:
    """`measured` is the measured case of descriptors that covers it, with its provenance; None where there is none."""

    operand: SharedOperand
    major: str
    descriptor: Descriptor
    measured: Json | None
    source: str
    layers: Layers

    @property
    def offsets(self) -> list[list[int]]:
        """Bytes from the start address: m x stored k of A, k x n of B."""
        held = self.operand.held
        turned = held.name == "b_smem"
        return [
            [
                offsets(self.descriptor, self.major, *((c, r) if turned else (r, c)), held.slot_bits)
                for c in range(held.cols)
            ]
            for r in range(held.rows)
        ]

    def elements(self, rows: Sequence[int], cols: Sequence[int]) -> list[ElementBytes]:
        """Where elements rows x cols lie; UsageError where one is outside the operand."""
        held, offsets_ = self.operand.held, self.offsets
        for name, values, size in (("row", rows, held.rows), ("col", cols, held.cols)):
            outside = next((value for value in values if not 0 <= value < size), None)
            if outside is not None:
                raise UsageError(f"{name} {outside} is outside 0 to {size - 1}.")
        return [self._element((row, col), offsets_[row][col]) for row in rows for col in cols]

    def at(self, byte: int) -> list[ElementBytes]:
        """The elements that have a byte, from the start address: several of b1, or where strides are zero.

        UsageError where there is none.
        """
        size = max(1, self.operand.held.slot_bits // 8)
        elements = [
            self._element((row, col), start)
            for row, starts in enumerate(self.offsets)
            for col, start in enumerate(starts)
            if start <= byte < start + size
        ]
        if not elements:
            last = max(map(max, self.offsets)) + size - 1
            raise UsageError(
                f"byte {byte} of {self.operand.held.name} holds no element; the last byte with one is {last}."
            )
        return elements

    def _element(self, element: tuple[int, int], offset: int) -> ElementBytes:
        (row, col), held = element, self.operand.held
        k = col if held.name == "a_smem" else row
        return ElementBytes(
            row, col, offset, max(1, held.slot_bits // 8), k % 8 if held.slot_bits < 8 else 0, held.slot_bits
        )

    @property
    def formula(self) -> str:
        """C syntax in row, col, lbo, sbo, base_offset and start."""
        held = self.operand.held
        return formula(self.major, self.descriptor.swizzle, held.slot_bits, held.name)

    @property
    def evidence(self) -> str:
        """What the map rests on, in words."""
        if self.measured is None:
            return f"documented only, by {', and '.join(STATED)}; not measured"
        case, of = self.measured["case"], self.measured["provenance"]
        counted = f"{case['agree']} of {case['elements']} elements behind {case['descriptors']} descriptors"
        counted += "" if case["instruction"] == self.operand.instruction.id else f" of {case['instruction']}"
        made = f"live on {of['device']}, driver {of['driver']}, CUDA {of['cuda']}, tcprobe {of['tcprobe']}"
        covering = _covering(self.operand, self.major, self.descriptor.swizzle, self.layers)
        contradicted = "".join(f"; {sourced.contradiction}" for sourced in covering if sourced.otherwise)
        return f"measured: {made}: {counted} are where the formula says, {source_words(self.source)}{contradicted}"

    @property
    def confidence(self) -> Confidence:
        """In the map: counted over all findings of descriptors that cover it; what is STATED is the formula."""
        covering = _covering(self.operand, self.major, self.descriptor.swizzle, self.layers)
        found = [finding for sourced in covering for finding in (*sourced.alike, *sourced.otherwise)]
        alike = [finding for finding in found if _agrees(finding)]
        devices, compilers = witnesses(alike, live=True), witnesses(alike, live=False)
        said = (len(STATED), 0) if alike else (0, len(STATED))
        methods = len({finding.method for finding in alike})
        otherwise = len(found) - len(alike)
        return Confidence(methods, len(devices), len(compilers), otherwise, *said) if found else UNMEASURED

    @property
    def descriptor_text(self) -> str:
        """The descriptor in hexadecimal."""
        return f"{self.descriptor.encode():#018x}"

    @property
    def about(self) -> str:
        """The operand."""
        return self.operand.id

    @property
    def in_words(self) -> Iterator[str]:
        """What is behind the descriptor, its fields, the formula, the bytes of the first elements, the evidence."""
        held, descriptor = self.operand.held, self.descriptor
        yield Whole(f"{self.operand.id} on {ARCH}")
        swizzle = f"swizzle {descriptor.swizzle}" if descriptor.swizzle else "no swizzle"
        size = f"{held.rows} x {held.cols} of {held.type}"
        yield f"operand {held.name}, {size} in shared memory, {self.major} contiguous, {swizzle}"
        yield (
            f"  descriptor {descriptor.encode():#018x}: LBO {descriptor.lbo}, SBO {descriptor.sbo}, "
            f"base offset {descriptor.base_offset}, start {descriptor.start}"
        )
        yield f"  offset = {self.formula}"
        yield ""
        yield Whole("byte from the start address of element (row, col)")
        lines = self.offsets[:SHOWN_ROWS]
        step = max(1, 8 // held.slot_bits)
        for row, row_offsets in enumerate(lines):
            shown = row_offsets[: SHOWN_COLUMNS * step : step]
            yield Whole(f"{row:4}  " + " ".join(f"{offset:5}" for offset in shown))
        if held.rows > len(lines) or held.cols > SHOWN_COLUMNS * step:
            every = f"; every {step}th column" if step > 1 else ""
            yield f"of {held.rows} x {held.cols}; --json has them all{every}"
        yield self.evidence

    @property
    def entries(self) -> list[Json]:
        """What `show --json` prints."""
        return [self.to_json()]

    def to_json(self) -> Json:
        """The object that `show --json` prints."""
        one, case = self.descriptor, self.measured
        provenance = {"method": None, "arch": ARCH, "source": self.evidence}
        if case:
            provenance = {"method": case["method"], "arch": ARCH, **case["provenance"], **case["case"]}
        answer = SharedMapAnswer.of(
            shared_entry(self.operand),
            arch=ARCH,
            source=self.source,
            major=self.major,
            swizzle=one.swizzle or "none",
            lbo=one.lbo,
            sbo=one.sbo,
            base_offset=one.base_offset,
            start=one.start,
            descriptor=self.descriptor_text,
            offsets=self.offsets,
            formula=self.formula,
            provenance=provenance,
        )
        return plain(answer)


def shared_map(operand: SharedOperand, layers: Layers, major: str = "k", swizzle: int = 0, **given: int) -> SharedMap:
    """The map of an operand; lbo, sbo, base_offset and start may be `given`, strides else are those without gaps.

    UsageError where the type does not have the major, or a field cannot be written.
    """
    if major not in operand.held.majors:
        raise UsageError(
            f"{operand.id}: {operand.held.type} has major {' and '.join(operand.held.majors)} only, not {major}."
        )
    chosen = packed_atoms(operand, major, swizzle)._replace(**given)
    case, source = evidence(operand, major, swizzle, layers)
    return SharedMap(operand, major, chosen.check(), case, source, layers)


def packed_atoms(operand: SharedOperand, major: str, swizzle: int) -> Descriptor:
    """The descriptor of one instruction's operand by itself: atoms of 8 next to each other, as `ask.descriptor` has."""
    lines, k = (
        (operand.held.rows, operand.held.cols)
        if operand.held.name == "a_smem"
        else (operand.held.cols, operand.held.rows)
    )
    if major == "mn":
        return Descriptor(swizzle * k, 8 * swizzle, swizzle) if swizzle else Descriptor(128, 16 * k)
    width = swizzle or UNIT
    one_row = swizzle and k * operand.held.slot_bits // 8 <= swizzle  # of the pattern: nothing reads the leading offset
    return Descriptor(UNIT if one_row else width * lines, 8 * width, swizzle)


def evidence(operand: SharedOperand, major: str, swizzle: int, layers: Layers) -> tuple[Json | None, str]:
    """The measured case that covers an operand, with method and provenance, and where it is saved.

    NoMajorityError where as many devices found its elements elsewhere.
    """
    for sourced in _covering(operand, major, swizzle, layers):
        finding = sourced.settled
        if _agrees(finding):
            case = finding.plain["case"]
            return {"case": case, "method": finding.method, "provenance": finding.provenance}, sourced.source
    return None, "published"


def _agrees(finding: Finding) -> bool:
    """Whether all elements of a case lie where the formula says."""
    case = finding.plain["case"]
    return bool(case["agree"] == case["elements"])


def _covering(operand: SharedOperand, major: str, swizzle: int, layers: Layers) -> Iterator[Sourced]:
    """Findings of descriptors of a family's operands of one width, major and swizzle, the nearest layer's first."""
    wanted = {"operand": operand.held.name, "bits": operand.held.slot_bits, "major": major, "swizzle": swizzle}
    for sourced in layers.findings(KIND, ARCH).values():
        case = sourced.finding.plain.get("case")
        if case is None or not wanted.items() <= case.items():
            continue
        if inventory.instructions()[case["instruction"]].family == operand.instruction.family:
            yield sourced


@dataclass(frozen=True)
class SharedMeeting:
    """A[row][stored] meets B[k][col] in D[row][col], held by `d`; of a sparse form one of several k, by index.

    A is held by `a`, or lies at byte `a_offset`; B at `b_offsets`, k by k.
    """

    row: int
    stored: int
    col: int
    k: tuple[int, ...]
    a: list[Holder]
    a_offset: int | None
    b_offsets: tuple[int, ...]
    d: list[Holder]

    def to_json(self) -> Json:
        return plain(self.answer)

    @property
    def answer(self) -> SharedMeetingAnswer:
        """What `--json` prints of it."""
        return SharedMeetingAnswer.of(self, a=[h.answer for h in self.a], d=[h.answer for h in self.d])


@dataclass(frozen=True)
class SharedMultiply:
    """A multiply with its tables, B behind a descriptor, and A too where it is not in registers."""

    instruction: Instruction
    tables: Mapping[str, Cell]
    b: SharedMap
    a: SharedMap | None = None

    @cached_property
    def b_offsets(self) -> list[list[int]]:
        """Bytes of B, k x n."""
        return self.b.offsets

    @cached_property
    def a_offsets(self) -> list[list[int]] | None:
        """Bytes of A, m x stored k; None where it is in registers."""
        return self.a.offsets if self.a else None

    @property
    def confidence(self) -> Confidence:
        """In its tables and descriptors: that of the one with the least evidence."""
        register_cells = [cell for name, cell in self.tables.items() if name != "a" or self.a is None]
        return least_sure(
            [*map(confidence, register_cells), self.b.confidence, *([self.a.confidence] if self.a else [])]
        )

    def meeting(self, element: tuple[int, int], stored: int) -> SharedMeeting:
        """What A[m][stored] meets for the element D[m][n]."""
        m, n = element
        k, a_offsets = self.possible_k(stored), self.a_offsets
        a = [] if a_offsets else where(self.tables["a"], [m], [stored])
        return SharedMeeting(
            m,
            stored,
            n,
            k,
            a,
            a_offsets[m][stored] if a_offsets else None,
            tuple(self.b_offsets[k_row][n] for k_row in k),
            where(self.tables["d"], [m], [n]),
        )

    def possible_k(self, stored: int) -> tuple[int, ...]:
        """The k that a stored column of A can be."""
        e = self.instruction.metadata
        if e is None:
            return (stored,)
        rule = sparsity(e)
        return tuple(rule.k(stored, index) for index in range(rule.positions))


@dataclass(frozen=True)
class SharedTrace:
    """`meetings` in order; `d` the holders of the element that was asked about.

    `held` are the elements of an operand at the byte that was asked about: row, column, and which of its bytes it is.
    """

    memory: SharedMultiply
    about: str
    meetings: list[SharedMeeting]
    d: list[Holder] = field(default_factory=list)
    held: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def in_words(self) -> Iterator[str]:
        """What meets, and what that rests on."""
        memory = self.memory
        held = f", held by {self.d[0]}" if self.d else ""
        yield f"{self.about} in {memory.instruction.id}{held}"
        for m in self.meetings:
            a = f"at byte {m.a_offset}" if memory.a else str(m.a[0])
            b = ", ".join(f"B[{k}][{m.col}] at byte {at}" for k, at in zip(m.k, m.b_offsets, strict=True))
            to = "" if self.d else f"  ->  D[{m.row}][{m.col}] {m.d[0]}"
            yield Whole(f"  A[{m.row}][{m.stored}] {a}  x  {b}{to}")
        yield f"{'D' if memory.a else 'A and D'}: {memory.tables['d'].evidence}"
        for name, one in (("A", memory.a), ("B", memory.b)):
            if one:
                yield f"{name} behind {one.descriptor.encode():#018x}: {one.evidence}"
        yield line(memory.confidence)

    def to_json(self) -> Json:
        b, a = self.memory.b, self.memory.a
        answer = SharedTraceAnswer.of(
            b,
            instruction=self.memory.instruction.id,
            about=self.about,
            d=[h.answer for h in self.d],
            held=[HeldByte(*byte) for byte in self.held],
            meetings=[m.answer for m in self.meetings],
            descriptor=b.descriptor_text,
            confidence=self.memory.confidence.answer,
            a_descriptor=a.descriptor_text if a else None,
        )
        return plain(answer)


def trace_element(multiply: SharedMultiply, m: int, n: int) -> SharedTrace:
    """What feeds D[m][n], in the order of k; UsageError where that is outside D."""
    d, row = where(multiply.tables["d"], [m], [n]), multiply.instruction
    return SharedTrace(multiply, f"D{d[0].element}", [multiply.meeting((m, n), s) for s in range(row.stored)], d)


def fed_by_slot(multiply: SharedMultiply, lane: int, i: int) -> SharedTrace:
    """What slot (lane, i) of A feeds, column by column; UsageError where there is no such slot."""
    slots = elements_held(multiply.tables["a"], [lane], [i])
    if not slots or slots[0].col is None:
        raise UsageError(f"{holder_name(lane, multiply.instruction.threads)} i {i} of A is unused.")
    slot, row = slots[0], multiply.instruction
    about = f"A {slot.holder} i {i}, which holds A{slot.element}"
    return SharedTrace(multiply, about, [multiply.meeting((slot.row, n), slots[0].col) for n in range(row.shape.n)])


def fed_by_byte(multiply: SharedMultiply, operand: str, byte: int) -> SharedTrace:
    """What a byte of a_smem or b_smem feeds, counted from the start address; UsageError where nothing lies there."""
    behind = multiply.b if operand == "b_smem" else multiply.a
    if behind is None:
        raise UsageError("A is in registers here: give `a_in` shared.")
    elements = [(element.row, element.col, byte - element.offset) for element in behind.at(byte)]
    what = ", ".join(f"{operand[0].upper()}[{row}][{col}]" for row, col, _ in elements[:8])
    more = f" and {len(elements) - 8} more" if len(elements) > 8 else ""
    meetings = [m for row, col, _ in elements for m in _of_element(multiply, operand, (row, col))]
    return SharedTrace(multiply, f"byte {byte} of {operand}, which holds {what}{more}", meetings, held=elements)


def _of_element(multiply: SharedMultiply, operand: str, element: tuple[int, int]) -> Iterable[SharedMeeting]:
    """Every meeting of an element: of A with each column, of B with each row of A, stored columns that can be its k."""
    shape, stored = multiply.instruction.shape, range(multiply.instruction.stored)
    row, col = element
    if operand == "a_smem":
        return [multiply.meeting((row, n), col) for n in range(shape.n)]
    return [multiply.meeting((m, col), s) for m in range(shape.m) for s in stored if row in multiply.possible_k(s)]


class InSharedMemory(NamedTuple):
    """An operand behind a descriptor, by what a name means."""

    meaning: Meaning

    def shared_map(self, options: OperandOptions) -> SharedMap:
        """The operand behind the descriptor that options say; its major may be in the name.

        UsageError for an arch that has no such operand, and for a selector, which is for metadata.
        """
        one = self.meaning.shared_operand
        if options.selector is not None:
            raise UsageError(f"{one.id} has no selector; only operand e of a sparse form has one.")
        for name in (options.arch or "all").split(","):
            if name != "all" and arch(name).name != ARCH:
                raise UsageError(f"{one.id} exists on {ARCH} only: `tcprobe why-not` says why {name} does not have it.")
        return shared_map_by(one, options._replace(major=options.major or self.meaning.major(one)))

    def shown(self, options: OperandOptions) -> Iterator[SharedMap]:
        """The map."""
        yield self.shared_map(options)

    def where(self, options: OperandOptions, sought: Sought) -> Iterator[LocatedBytes]:
        """The bytes of elements, or the elements at bytes."""
        require_no_tensor_memory(options, sought)
        check_warp(self.meaning.shared_operand.family, sought.warp)
        map_, rows, cols = self.shared_map(options), sought.rows, sought.cols
        by_slot = sought.lanes is not None or sought.elements is not None
        if by_slot or (sought.byte is None) == (rows is None and cols is None):
            raise UsageError(f"{map_.operand.id} is in shared memory: give `rows` and `cols`, or `byte`.")
        if sought.byte is not None:
            elements = [element for at in sought.byte for element in map_.at(at)]
        else:
            held = map_.operand.held
            elements = map_.elements(
                range(held.rows) if rows is None else rows, range(held.cols) if cols is None else cols
            )
        yield LocatedBytes(map_, elements)

    def why_not(self, device: Arch, layers: Layers) -> list[WhyNot]:
        """Why an arch does not have it."""
        from tcprobe.ask.absent import why_not_behind

        return [why_not_behind(self.meaning.shared_operand, device, layers)]


class LocatedBytes(NamedTuple):
    """Elements behind a descriptor with their bytes."""

    map_: SharedMap
    elements: Sequence[ElementBytes]
    about: str = ""

    @property
    def in_words(self) -> Iterator[str]:
        """A line an element, and what it rests on."""
        for element in self.elements:
            yield Whole(f"{self.map_.operand.held.name[0].upper()}{element} from the start address")
        yield f"behind {self.map_.descriptor.encode():#018x}: {self.map_.evidence}"
        yield line(self.map_.confidence)

    def to_json(self) -> Json:
        answer = LocatedBytesAnswer.of(
            self.map_,
            id=self.map_.operand.id,
            arch=ARCH,
            confidence=self.map_.confidence.answer,
            descriptor=self.map_.descriptor_text,
            elements=[ElementAnswer.of(element) for element in self.elements],
        )
        return plain(answer)


def shared_map_by(operand: SharedOperand, options: OperandOptions) -> SharedMap:
    """An operand behind the descriptor that options say."""
    numbers = {name: getattr(options, name) for name in ("lbo", "sbo", "base_offset", "start")}
    stated = {name: number for name, number in numbers.items() if number is not None}
    span = options.swizzle.span if options.swizzle else 0
    return shared_map(operand, options.layers, options.major or "k", span, **stated)
