"""What the code in a file does with matrices: of every function its matrix instructions, and what is known of them.

A file is a cubin, PTX, or anything that holds fatbins. Where it has no cubin for an arch, its PTX is assembled.

What its registers hold a kernel's own code may show: one that loads a wmma fragment and stores each lane's registers
one after the other, or fills a fragment from memory and stores it, only moves bytes; one that writes numbers into an
accumulator and stores it shows the slot of each element by its number. Run byte by byte (`sass.copies`) it says at
which offset in memory each element of each lane lies. The published fragments of the arch whose table, with some
leading dimension, leads there are what it holds; where none does, the one that agrees in most slots is named, and the
slots that differ.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tcprobe.ask.describe import TableAnswer, cell_answer
from tcprobe.ask.diagnose import FIRST
from tcprobe.errors import EnvironmentUnfitError
from tcprobe.isa import inventory
from tcprobe.isa.arch import ARCHS, WARP, Arch
from tcprobe.isa.fragment import Shape
from tcprobe.layout.arrays import Ints
from tcprobe.layout.table import Table, slot_table
from tcprobe.question.answers import UNSET, Answer, UnsetType, plain
from tcprobe.sass import matrix_code
from tcprobe.sass.code_files import CodeFiles, Compiled
from tcprobe.sass.copies import BYTES, MOST_CODE, Copied, Numbered, follow_copies, lanes_of
from tcprobe.sass.cubin import disassemble
from tcprobe.sass.decode import UnreadError
from tcprobe.sass.elf import Content, FunctionCode
from tcprobe.sass.frame import LOCAL
from tcprobe.sass.lowering import Lowering, lower
from tcprobe.sass.matrix_code import is_matrix
from tcprobe.sass.source_lines import FunctionLines, SourceLine, source_lines
from tcprobe.sass.toolchain import Toolchain
from tcprobe.store.cell import Cell, find
from tcprobe.store.choose import Layers
from tcprobe.text import escaped
from tcprobe.values import Json

_SHAPE = re.compile(r"[A-Z]GMMA\.(?:SP\.)?([0-9]{1,3})x([0-9]{1,3})x([0-9]{1,3})\b")


class KnownLayout(Answer):
    """The layout of an operand, and how it is known."""

    layout_id: str
    known: str
    evidence: str


class OriginAnswer(Answer):
    """A form that an opcode comes from, how many opcodes each of it is, and its operands' layouts."""

    instruction: str
    native: bool
    each: int
    layouts: dict[str, KnownLayout]


class ReadFrom(Answer):
    """The code that shows a table."""

    method: str
    arch: str
    file: str
    kernel: str


class CodeTableAnswer(TableAnswer, kw_only=True):
    """As show, with the table that the code shows."""

    provenance: ReadFrom  # type: ignore[assignment]
    leading_dimension: int
    fragments: tuple[str, ...]
    differ: int
    of_: int
    first: tuple[str, ...]


class LineCount(Answer):
    """A line of the source, and how many of the instructions are of it."""

    file: str
    line: int
    count: int


class UseAnswer(Answer):
    """An opcode, where in the source it is, and what it comes from."""

    opcode: str
    count: int
    native: bool | None
    lines: list[LineCount]
    forms: list[OriginAnswer]


class NameCount(Answer):
    """An instruction of PTX."""

    name: str
    count: int


class ReadAnswer(Answer, kw_only=True):
    """A function of a file and its matrix instructions, one object per line."""

    file: str
    arch: str
    name: str
    registers: int | None
    stack: int | None
    local_loads: int
    local_stores: int
    routines: list[str]
    instructions: list[UseAnswer]
    ptx: list[NameCount] | None
    unread: int
    tables: list[CodeTableAnswer] | UnsetType = UNSET
    not_seen: str | UnsetType = UNSET


@dataclass(frozen=True)
class OperandLayout:
    """The layout of a form's operand on the arch, and how it is known."""

    operand: str
    layout_id: str
    known: str
    evidence: str


@dataclass(frozen=True)
class Origin:
    """A PTX form that becomes an opcode, `each` times; `native` where the tensor cores do it in its own type."""

    instruction: str
    native: bool
    each: int
    layouts: tuple[OperandLayout, ...]

    def to_json(self) -> Json:
        return plain(self.answer)

    @property
    def answer(self) -> OriginAnswer:
        """What `--json` prints of it."""
        return OriginAnswer.of(self, layouts={layout.operand: KnownLayout.of(layout) for layout in self.layouts})


class Origins:
    """The forms behind opcodes, looked up once for each arch and opcode."""

    def __init__(self, tools: Toolchain, layers: Layers) -> None:
        self._tools, self._layers = tools, layers
        self._saved: dict[str, dict[str, dict[str, Lowering]]] = {}
        self._origins: dict[tuple[str, str], tuple[Origin, ...]] = {}

    def find(self, arch: str, opcode: str, ptx: Mapping[str, int] | None = None) -> tuple[Origin, ...]:
        """The forms that become an opcode, native ones first; with `ptx` only those that stand there by name."""
        key = (arch, opcode)
        if key not in self._origins:
            forms = self._forms(arch, opcode)
            origins = [self._origin(arch, id_, lowering, opcode) for id_, lowering in forms.items()]
            self._origins[key] = tuple(sorted(origins, key=lambda o: (not o.native, o.each, o.instruction)))
        if ptx is None:
            return self._origins[key]
        ids = {self._ids[name] for name in ptx if name in self._ids}
        return tuple(origin for origin in self._origins[key] if origin.instruction in ids)

    @cached_property
    def _ids(self) -> dict[str, str]:
        return {row.name: row.id for row in inventory.instructions().values()}

    def _forms(self, arch: str, opcode: str) -> dict[str, Lowering]:
        """The lowering of each form that becomes an opcode on an arch."""
        if arch not in self._saved:
            self._saved[arch] = self._by_opcode(arch)
        row = next((row for row in ARCHS if row.name == arch), None)
        shape = _SHAPE.match(opcode)
        if row and shape:
            return self._assemble(row, opcode, Shape(*map(int, shape.groups())))
        return self._saved[arch].get(opcode, {})

    def _by_opcode(self, arch: str) -> dict[str, dict[str, Lowering]]:
        forms: dict[str, Lowering] = {}
        for body, _ in self._layers.lowerings(arch):
            for id_, saved in body["instructions"].items():
                forms.setdefault(id_, Lowering(**saved))
        by_opcode: dict[str, dict[str, Lowering]] = {}
        for id_, lowering in forms.items():
            for opcode in lowering.opcodes if id_ in inventory.instructions() else ():
                by_opcode.setdefault(opcode, {})[id_] = lowering
        return by_opcode

    def _assemble(self, arch: Arch, opcode: str, shape: Shape) -> dict[str, Lowering]:
        forms = [i for i in inventory.instructions().values() if i.described and i.shape == shape and i.target.on(arch)]
        try:
            lowerings = lower(self._tools, arch, forms)
        except EnvironmentUnfitError:  # a ptxas that does not know the arch
            return {}
        return {id_: lowering for id_, lowering in lowerings.items() if opcode in lowering.opcodes}

    def _origin(self, arch: str, id_: str, lowering: Lowering, opcode: str) -> Origin:
        form = inventory.instructions()[id_]
        native = lowering.native(form)
        cells = [(f.operand, find(f, arch, self._layers)) for f in form.fragments] if native else []
        layouts = (OperandLayout(name, cell.table.id, cell.known, cell.evidence) for name, cell in cells if cell)
        return Origin(id_, native, lowering.opcodes[opcode], tuple(layouts))


LEAST_ALIKE = 0.25  # of the slots must agree for a fragment to be named that differs
MOST_LEADING = 1 << 12
NUMBER_TYPES = (np.float32, np.int32, np.float16, np.float64)  # of accumulators, in which a kernel can store numbers


@dataclass(frozen=True)
class CodeTable:
    """What a kernel's code shows: of `fragments`, which all have the very table, or of the nearest one.

    `table` leads from slots to rows and columns with the leading dimension that fits; `differ` of its slots are not
    those of the published table, the first of them in words.
    """

    cell: Cell
    fragments: tuple[str, ...]
    table: Table
    leading: int
    differ: int = 0
    first: tuple[str, ...] = ()

    def to_json(self, file: str, kernel: str) -> Json:
        """The object that `show --json` prints, of this table: measured from that code."""
        return plain(self.answer(file, kernel))

    def answer(self, file: str, kernel: str) -> CodeTableAnswer:
        """What `--json` prints of it."""
        return CodeTableAnswer.of(
            cell_answer(replace(self.cell, table=self.table)),
            source=f"{file}, {kernel}",
            provenance=ReadFrom("read", self.cell.arch, file, kernel),
            leading_dimension=self.leading,
            fragments=self.fragments,
            differ=self.differ,
            of_=self.table.points,
            first=self.first,
        )


class Offsets(NamedTuple):
    """The byte of the matrix in memory of each byte that a lane holds, (32, bytes); whether registers were stored."""

    places: Ints
    loaded: bool


def tables(tools: Toolchain, arch: Arch, functions: Sequence[FunctionCode], layers: Layers) -> list[CodeTable | str]:
    """What each function holds, or why its code does not show it."""
    simple = [f for f in functions if f.parameters and len(f.code) <= MOST_CODE]
    kernels = {str(number): Content(f.code, 0, 0) for number, f in enumerate(simple)}
    codes = disassemble(tools, arch, kernels) if kernels else {}
    answers: dict[int, CodeTable | str] = {}
    for number, function in enumerate(simple):
        try:
            assert function.parameters is not None
            seen = follow_copies(codes[str(number)], function.parameters, arch.number)
            offsets = _offsets(seen) if isinstance(seen, Copied) else _numbered(seen, arch, layers)
            answers[id(function)] = _answer(offsets, arch, layers) if isinstance(offsets, Offsets) else offsets
        except UnreadError as error:
            answers[id(function)] = str(error)
    return [answers.get(id(f), "no kernel with parameters, or too long to be run") for f in functions]


def _offsets(copied_bytes: Copied) -> Offsets:
    """By lane, from the side where lane after lane has its registers; UnreadError where neither side is so."""
    of_writers = lanes_of(copied_bytes.lane, copied_bytes.to)
    readers = np.array([copied_bytes.readers.get(place, -1) for place in copied_bytes.source.tolist()], np.int64)
    of_readers = lanes_of(readers, copied_bytes.source)
    if of_writers and of_readers:
        raise UnreadError("both memories are in lane order, which shows nothing; a larger leading dimension would")
    if of_writers is None and of_readers is None:
        raise UnreadError("it does not store its registers lane by lane, which would show what each lane holds")
    _, order = of_writers or of_readers or (0, np.zeros(0, np.int64))
    matrix = copied_bytes.source if of_writers else copied_bytes.to
    if len(set((matrix // BYTES).tolist())) > 1:
        raise UnreadError("its matrix is in several buffers")
    return Offsets((matrix % BYTES)[order], of_writers is not None)


def _numbered(numbered: Numbered, arch: Arch, layers: Layers) -> Offsets | str:
    """By lane, of a kernel that stores lane * s + i of register i < s; if it stores lane alone, what that shows.

    UnreadError where its numbers are not those of the lanes that store them.
    """
    for dtype in NUMBER_TYPES:
        size = np.dtype(dtype).itemsize
        each, rest = divmod(len(numbered.to), WARP * size)
        whole = not rest and (numbered.to.reshape(-1, size) == numbered.to[::size, None] + np.arange(size)).all()
        if not whole or (numbered.lane.reshape(-1, size) != numbered.lane[::size, None]).any():
            continue
        numbers, lanes = np.ascontiguousarray(numbered.content).view(dtype).astype(np.float64), numbered.lane[::size]
        if (np.bincount(lanes, minlength=WARP) != each).any():
            continue
        order = np.lexsort((numbers, lanes))
        by_lane = numbers[order].reshape(WARP, each)
        stride = by_lane[1, 0]
        if stride >= each and (by_lane == np.arange(WARP)[:, None] * stride + np.arange(each)).all():
            return Offsets((numbered.to % BYTES).reshape(-1, size)[order].reshape(WARP, each * size), False)
        if (numbers == lanes).all():
            return _lanes_alone(numbered.to[::size] % BYTES // size, lanes, each * size, arch, layers)
    raise UnreadError(
        "the numbers that it stores are computed, and not lane * s + i of register i < s, which shows every slot"
    )


def _lanes_alone(offsets: Ints, lanes: Ints, lane_bytes: int, arch: Arch, layers: Layers) -> str:
    """What numbers of lanes show: whose lanes hold the same elements, but not in which of their registers."""
    alike: list[str] = []
    owner = dict(zip(offsets.tolist(), lanes.tolist(), strict=True))
    for cell, by_row in _candidates(Offsets(np.zeros((WARP, lane_bytes), np.int64), False), arch, layers):
        major, minor = _numbers(cell, by_row)
        held = np.arange(cell.table.points) // cell.table.elements
        leading = [
            n
            for n in range(int(minor.max()) + 1, MOST_LEADING)
            if int(major.max()) * n + int(minor.max()) == max(owner)
        ]
        if leading and [owner.get(place) for place in (major * leading[0] + minor).tolist()] == held.tolist():
            alike.append(cell.fragment.id)
    whose = (
        f"each element is in its lane of {', '.join(alike)}" if alike else f"no fragment of {arch.name} has these lanes"
    )
    return f"it stores the number of the lane alone: {whose}; lane * s + i of register i < s shows registers too"


def _answer(lane_bytes: Offsets, arch: Arch, layers: Layers) -> CodeTable | str:
    exact: dict[int, tuple[Cell, list[str]]] = {}
    best: tuple[int, Cell, int, bool] | None = None
    for cell, by_row in _candidates(lane_bytes, arch, layers):
        leading, agreed = _leading(cell, lane_bytes.places, by_row)
        if agreed == cell.table.points:
            exact.setdefault(leading, (cell, []))[1].append(cell.fragment.id)
        elif best is None or agreed > best[0]:
            best = agreed, cell, leading, by_row
    if exact:
        leading, (cell, _) = max(exact.items(), key=lambda item: len(item[1][1]))
        every = dict.fromkeys(id_ for _, ids in exact.values() for id_ in ids)
        return CodeTable(cell, tuple(every), cell.table, leading)
    if best is None or best[0] < LEAST_ALIKE * best[1].table.points:
        return f"no fragment of {arch.name} has {lane_bytes.places.shape[1]} bytes per lane in this order"
    return _differing(best[1], lane_bytes.places, best[2], best[3])


def _candidates(lane_bytes: Offsets, arch: Arch, layers: Layers) -> Iterator[tuple[Cell, bool]]:
    """The fragments of wmma with as many bytes a lane, and whether they lie in memory by row."""
    operands, bits = ("a", "b", "c") if lane_bytes.loaded else ("d",), 8 * lane_bytes.places.shape[1]
    for fragment in inventory.fragments().values():
        if fragment.family != "wmma" or not fragment.target.on(arch) or fragment.operand not in operands:
            continue
        if fragment.elements * fragment.slot_bits != bits:
            continue
        cell = find(fragment, arch.name, layers)
        if cell and cell.measured:
            for by_row in (True, False) if fragment.layout is None else (fragment.layout == "row",):
                yield cell, by_row


def _numbers(cell: Cell, by_row: bool) -> tuple[Ints, Ints]:
    """For each slot the coordinate that the leading dimension multiplies, and the other."""
    row, col = (
        np.array([-1 if v is None else v for v in cell.table.values[name]], np.int64) for name in ("row", "col")
    )
    return (row, col) if by_row else (col, row)


def _elements(cell: Cell, places: Ints) -> Ints:
    """The offset in elements of each slot; -1 where its bytes do not lie together."""
    bits, count = cell.fragment.slot_bits, cell.table.points
    if bits < 8:
        each = 8 // bits
        return (places.reshape(-1, 1) * each + np.arange(each)).reshape(-1)
    size = bits // 8
    parts = places.reshape(count, size)
    whole = (parts == parts[:, :1] + np.arange(size)).all(axis=1) & (parts[:, 0] % size == 0)
    return np.where(whole, parts[:, 0] // size, -1)


def _leading(cell: Cell, places: Ints, by_row: bool) -> tuple[int, int]:
    """The leading dimension that most slots fit, in elements, and how many do."""
    major, minor = _numbers(cell, by_row)
    offsets = _elements(cell, places)
    moved = (major > 0) & (offsets >= 0)
    steps, rest = np.divmod(offsets[moved] - minor[moved], major[moved])
    counts = Counter(steps[(rest == 0) & (steps > 0) & (steps <= MOST_LEADING)].tolist())
    leading = counts.most_common(1)[0][0] if counts else int(minor.max()) + 1
    return leading, int(np.count_nonzero(offsets == major * leading + minor))


def _differing(cell: Cell, places: Ints, leading: int, by_row: bool) -> CodeTable:
    """A table that nobody published, beside the nearest published one."""
    offsets = _elements(cell, places)
    major, minor = np.divmod(np.maximum(offsets, 0), leading)
    row, col = (major, minor) if by_row else (minor, major)
    values = {
        name: tuple(None if o < 0 else int(v) for v, o in zip(numbers, offsets, strict=True))
        for name, numbers in (("row", row), ("col", col))
    }
    table = slot_table(cell.table.threads, cell.table.elements, values)
    wrong = [
        slot for slot, (ours, theirs) in enumerate(zip(cell.table.cells, table.cells, strict=True)) if ours != theirs
    ]
    first = tuple(
        f"lane {slot // table.elements} i {slot % table.elements}: in this code {_place_words(table.cells[slot])}, "
        f"published {_place_words(cell.table.cells[slot])}"
        for slot in wrong[:FIRST]
    )
    return CodeTable(cell, (cell.fragment.id,), table, leading, len(wrong), first)


def _place_words(slot_place: tuple[int, ...] | None) -> str:
    return "nothing" if slot_place is None else str(list(slot_place))


_HEAD = re.compile(r"\.(?:entry|func)\s+(?:\([^()]{0,2000}\)\s*)?([\w$%]{1,1000})")
_CALL = re.compile(
    r"^\s*(?:@!?%\w+\s+)?((?:w?mma|wgmma|tcgen05|ldmatrix|stmatrix|movmatrix)\.[\w.:]{1,200})", re.MULTILINE
)


@dataclass(frozen=True)
class Use:
    """A matrix opcode of a function: how often it stands there, for which source lines, and where it comes from."""

    opcode: str
    count: int
    lines: dict[SourceLine, int]
    origins: tuple[Origin, ...]

    @property
    def native(self) -> bool | None:
        """Whether some form becomes it in its own type; None where no form is known to become it."""
        return any(origin.native for origin in self.origins) if self.origins else None

    def to_json(self) -> Json:
        return plain(self.answer)

    @property
    def answer(self) -> UseAnswer:
        """What `--json` prints of it."""
        lines = [LineCount(*line, count) for line, count in self.lines.items()]
        return UseAnswer.of(self, lines=lines, forms=[origin.answer for origin in self.origins])


@dataclass(frozen=True)
class FunctionReading:
    """A function of a file. `ptx` counts its PTX instructions by name where the file has them as text, else None.

    `unread` counts words of its code that nvdisasm does not take; `holds` is the table that it shows, or why none,
    where that was asked for.
    """

    file: str
    arch: str
    function: FunctionCode
    uses: tuple[Use, ...]
    local: dict[str, int]
    unread: int
    ptx: dict[str, int] | None = None
    holds: CodeTable | str | None = None

    @property
    def name(self) -> str:
        """The function's, with what cannot be printed spelt out."""
        return escaped(self.function.name)

    def to_json(self) -> Json:
        holds = self.holds
        answer = ReadAnswer.of(
            self.function,
            file=self.file,
            arch=self.arch,
            name=self.name,
            local_loads=self.local.get("LDL", 0),
            local_stores=self.local.get("STL", 0),
            instructions=[use.answer for use in self.uses],
            ptx=None if self.ptx is None else [NameCount(*counted) for counted in self.ptx.items()],
            unread=self.unread,
            tables=[holds.answer(self.file, self.name)]
            if isinstance(holds, CodeTable)
            else UNSET
            if holds is None
            else [],
            not_seen=holds if isinstance(holds, str) else UNSET,
        )
        return plain(answer)


class Reader:
    """Reads files; what cannot be read of one is told to `complaints`, another compiler that was needed to `notes`.

    With `try_others`, PTX that is newer than the ptxas of `tools` is assembled by the first that knows it.
    """

    def __init__(
        self,
        tools: Toolchain,
        origins: Origins,
        archs: Sequence[str] = (),
        tables_of: Layers | None = None,
        try_others: bool = False,
    ) -> None:
        self._tools, self._origins, self._tables_of = tools, origins, tables_of
        self._files = CodeFiles(tools, archs, try_others)
        self.complaints, self.notes = self._files.complaints, self._files.notes

    def read(self, path: Path) -> Iterator[FunctionReading]:
        """The functions of a file, arch by arch; DataError where nothing in it can be read."""
        codes = list(self._files.read(path))
        for name in dict.fromkeys(code.cubin.arch for code in codes):
            yield from self._of_arch(str(path), name, [code for code in codes if code.cubin.arch == name])

    def _of_arch(self, path: str, name: str, cubins: Sequence[Compiled]) -> Iterator[FunctionReading]:
        functions = [(code, function) for code in cubins for function in code.cubin.functions]
        places = matrix_code.find(self._tools, name, [function.code for _, function in functions])
        lines: dict[int, dict[str, FunctionLines]] = {}
        row = next((row for row in ARCHS if row.name == name), None)
        holds: Sequence[CodeTable | str | None] = [None] * len(functions)
        if row and self._tables_of is not None:
            holds = tables(self._tools, row, [function for _, function in functions], self._tables_of)
        for (code, function), decoded, shows in zip(functions, places, holds, strict=True):
            matrix = {address: opcode for address, opcode in decoded.opcodes.items() if is_matrix(opcode)}
            if matrix and code.cubin.lines and id(code) not in lines:
                lines[id(code)] = source_lines(code.raw)
            ptx = None if code.ptx is None else ptx_calls(code.ptx).get(function.name, {})
            uses = self._uses(name, matrix, lines.get(id(code), {}).get(function.name), ptx)
            local = Counter(s for o in decoded.opcodes.values() if (s := matrix_code.mnemonic(o)) in LOCAL)
            yield FunctionReading(path, name, function, uses, dict(local), decoded.unread, ptx, shows)

    def _uses(
        self, arch: str, matrix: dict[int, str], lines: FunctionLines | None, ptx: Mapping[str, int] | None
    ) -> tuple[Use, ...]:
        uses = []
        for opcode, count in sorted(Counter(matrix.values()).items()):
            places = [place for place, other in matrix.items() if other == opcode] if lines else []
            by_line = Counter(line for place in places if lines and (line := lines.at(place)))
            uses.append(Use(opcode, count, dict(sorted(by_line.items())), self._origins.find(arch, opcode, ptx)))
        return tuple(uses)


def ptx_calls(text: str) -> dict[str, dict[str, int]]:
    """The matrix instructions of every function of a PTX text, by name, with counts."""
    heads = list(_HEAD.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    return {head[1]: dict(Counter(_CALL.findall(text, head.end(), end))) for head, end in zip(heads, ends, strict=True)}
