"""Tensor memory as a place: where an element of a tcgen05 operand is, which element a cell holds, and by which formula.

>>> from tcprobe.ask.tensor_memory import OperandVariant, operand, placement
>>> d = placement(operand("tcgen05.mma.cta_group::1.kind::f16.d"), OperandVariant(m=64, n=128))
>>> d.letter, d.places(20, 7), d.at(0, 36, 7, 0)
('F', (TensorCell(cta=0, lane=36, column=7, bit=0),), (20, 7))
>>> {name: str(formula) for name, formula in d.formulas.items()}
{'row': '(lane & 15) + ((lane & 96) >> 1)', 'col': 'column'}

What was measured counts; without, sources state it, and where they contradict each other both are given.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from tcprobe.ask.operand import OF_DESCRIPTORS, OperandOptions, Range, Sought, given
from tcprobe.errors import AmbiguousError, UsageError, answer_or_none
from tcprobe.fit import fitted
from tcprobe.fit.formula import Formula
from tcprobe.isa import inventory
from tcprobe.isa.arch import ARCHS, Arch, arch
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.names import likely, resolve, search
from tcprobe.isa.names.search import as_id
from tcprobe.isa.names.words import read
from tcprobe.isa.operand import Place
from tcprobe.isa.rows.tcgen05 import COLUMNS
from tcprobe.layout.table import Axis, Space, Table
from tcprobe.question.answers import UNSET, Answer, Meta, UnsetType, plain
from tcprobe.question.declare import note
from tcprobe.references import tensor_memory
from tcprobe.references.tensor_memory import CELL, LANES, CellStatement, Extent, Stated, TensorCell
from tcprobe.store.choose import Layers
from tcprobe.store.finding import Sourced, how, source_words
from tcprobe.store.kinds.tensor_memory import KIND, Subject, measured_as, subject
from tcprobe.text import Whole, quoted
from tcprobe.values import Json

if TYPE_CHECKING:
    from tcprobe.ask.absent import WhyNot

USUAL = {"m": 128, "n": 256}
ACCUMULATOR = "tcgen05.mma.cta_group::1.kind::f16"  # whose D is meant where a name says no form
COPIED = "PTX ISA 9.1, section 9.7.16.9.2; Apache TVM, documentation of tirx, tcgen05.cp"
SHIFTED = (
    "tcgen05.shift moves elements of 32 bytes one row down, in all rows but the last (PTX ISA 9.1, 9.7.16.9.3); "
    "no text says which direction is down, so there is no table."
)


class MemoryOperand(NamedTuple):
    """An operand in tensor memory, or one that may be there (A), of a tcgen05 form."""

    form: Instruction
    name: str
    vector: int | None = None  # scales of a row, where the name says so: 4 of nvfp4

    @property
    def id(self) -> str:
        """As that of a fragment."""
        return f"{self.form.id}.{self.name}"


def holding(statement: CellStatement) -> dict[TensorCell, tuple[int, int]]:
    """The first element of each place: a metadata field of 4-bit types speaks for two."""
    held = dict[TensorCell, tuple[int, int]]()
    for row in range(statement.rows):
        for col in range(statement.cols):
            for place in statement.holding(row, col):
                held.setdefault(place, (row, col))
    return held


@lru_cache(maxsize=16)  # forms share them
def table_of(statement: CellStatement) -> Table:
    """As `Placement.table`."""
    held, bits, parts = holding(statement), statement.bits, CELL // statement.bits
    ctas, columns = 1 + max(place.cta for place in held), 1 + max(place.column for place in held)
    axes = [Axis("cta", ctas), Axis("lane", LANES), Axis("column", columns), Axis("part", parts)]
    space = Space(tuple(axis for axis in axes if axis.size > 1 or axis.name in ("lane", "column")))
    cells: list[tuple[int, int] | None] = [None] * space.points
    for (cta, lane, column, bit), element in held.items():
        cells[((cta * LANES + lane) * columns + column) * parts + bit // bits] = element
    rows, cols = (tuple(cell and cell[index] for cell in cells) for index in (0, 1))
    return Table(space, {"row": rows, "col": cols})


Status = Literal["documented", "measured"]
MeasuredOn = Annotated[str, Meta(description="where it was measured")]
Agreeing = Annotated[list[str], Meta(description="of what is measured: who documents the same")]


class PlacedFormula(Answer):
    """In cta, lane, column and part; null where there is no closed form."""

    row: str | None
    col: str | None


class PlacedAnswer(Answer):
    """An operand in tensor memory: `rows` x `cols` elements of `bits` bits, each in `held` cells of 32 bits, over
    `columns` columns; formulas of row and col in cta, lane, column and part (of a cell with several elements);
    `differs` names who says otherwise.
    """

    id: str
    instruction: str
    operand: str
    place: str
    m: int
    n: int
    rows: int
    cols: int
    bits: int
    layout: str | None
    held: int
    columns: int
    formula: PlacedFormula
    source: str
    differs: list[str]
    status: Status
    arch: MeasuredOn | UnsetType = UNSET
    agrees: Agreeing | UnsetType = UNSET
    scales: int | UnsetType = UNSET
    selector: int | UnsetType = UNSET


class NotPlaced(Answer, kw_only=True):
    """What nobody states, and why."""

    id: str
    instruction: str
    scales: int | UnsetType | None = UNSET
    selector: int | UnsetType | None = UNSET
    why: str


class CellAnswer(Answer):
    """A cell of tensor memory."""

    cta: int
    lane: int
    column: int


class DifferingCells(Answer):
    """Who puts the element elsewhere, and where."""

    source: str
    tmem: tuple[TensorCell, ...]


class LocatedCellAnswer(Answer, kw_only=True):
    """An element of an operand in tensor memory, or what a cell holds: row and col are null where it holds nothing.
    `bit` is the lowest of `bits` in the cell of 32; `copies` are further cells with the element, `differs` who says
    otherwise. Of D with --ld the warp, its lane and the register of the load whose address has column_base and
    lane_base.
    """

    id: str
    m: int
    n: int
    layout: str | None
    row: int | None
    col: int | None
    tmem: CellAnswer
    bit: int
    bits: int
    copies: list[TensorCell] | UnsetType = UNSET
    warp: int | UnsetType = UNSET
    lane: int | UnsetType = UNSET
    register: int | UnsetType = UNSET
    column_base: int | UnsetType = UNSET
    lane_base: int | UnsetType = UNSET
    status: Status
    source: str
    arch: MeasuredOn | UnsetType = UNSET
    agrees: Agreeing | UnsetType = UNSET
    differs: list[DifferingCells] | UnsetType = UNSET
    selector: int | UnsetType = UNSET


@dataclass(frozen=True)
class Placement:
    """An operand of M x N; `statements` are what sources say, the answer first: that of `measured_places` where there
    is one. `letter` is the layout of PTX ISA."""

    operand: MemoryOperand
    m: int
    n: int
    letter: str | None
    statements: tuple[CellStatement, ...]
    measured_places: MeasuredPlaces | None = None

    @property
    def status(self) -> Status:
        """Whether the answer is measured."""
        return "measured" if self.measured_places else "documented"

    @property
    def evidence(self) -> str:
        """What the answer rests on, in words."""
        if self.measured_places is None:
            return f"documented only, by {self.statement.source}"
        by = "; ".join(documented.source for documented in self.measured_places.agreeing)
        return f"{self.statement.source}" + (f"; also documented by {by}" if by else "")

    @property
    def agreement(self) -> dict[str, Any]:
        """Of what is measured, the arch, and who documents the same."""
        places = self.measured_places
        return {"arch": places.arch, "agrees": [documented.source for documented in places.agreeing]} if places else {}

    @property
    def statement(self) -> CellStatement:
        """The answer."""
        return self.statements[0]

    def places(self, row: int, col: int) -> tuple[TensorCell, ...]:
        """Every place of an element; UsageError where there is no such element."""
        statement = self.statement
        if not (0 <= row < statement.rows and 0 <= col < statement.cols):
            raise UsageError(
                f"{self.operand.name.upper()} is {statement.rows} x {statement.cols}: it has no element {row}, {col}."
            )
        return statement.holding(row, col)

    @cached_property
    def _holding(self) -> dict[TensorCell, tuple[int, int]]:
        return holding(self.statement)

    def at(self, cta: int, lane: int, column: int, bit: int) -> tuple[int, int] | None:
        """The element that has a bit of a cell, None where none has."""
        return self._holding.get(TensorCell(cta, lane, column, bit - bit % self.statement.bits))

    @property
    def table(self) -> Table:
        """From cta (of two), lane, column and part (of a cell that holds several elements) to row and col."""
        return table_of(self.statement)

    @cached_property
    def formulas(self) -> dict[str, Formula | None]:
        """Row and col, where they have closed forms, proven over every cell."""
        return fitted(self.table).formulas

    @cached_property
    def copies(self) -> int:
        """Places of an element, in all lanes and CTAs."""
        return len(self.statement.holding(0, 0))

    def to_json(self) -> Json:
        """Plain data, as `show --json` prints it."""
        return plain(self.answer)

    @property
    def answer(self) -> PlacedAnswer:
        """What `show --json` prints of it."""
        statement = self.statement
        return PlacedAnswer.of(
            statement,
            id=self.operand.id,
            instruction=self.operand.form.name,
            operand=self.operand.name,
            place=Place.TENSOR_MEMORY.value,
            m=self.m,
            n=self.n,
            layout=self.letter,
            held=self.copies,
            columns=self.table.space.axes[self.table.space.names.index("column")].size,
            formula={name: str(formula) if formula else None for name, formula in self.formulas.items()},
            differs=[other.source for other in self.statements[1:]],
            status=self.status,
            **self.agreement,
        )


ONE_CTA = "Taken for cta_group::1, one CTA; name cta_group::2 for the layout of a pair."


# what PTX writes of scales between a form's name and its operand
_SCALED = r"(?i)\.block_scaled?(?=[.\s]|$)|[.\s](?:scale_vec::(?P<count>[1-6])x|block(?P<block>16|32))(?=[.\s]|$)"
_OPERAND = r"(?i)(?:^|[\s.])(scale_[ab]|[abde])(?=\s|$)"


def operand(name: str) -> MemoryOperand | None:
    """The operand in tensor memory that a name means; None where it means none, or something in registers.

    AmbiguousError where several forms have it. Scales are as many a row as the name says: scale_vec::4X or block16.
    """
    said = {key: value for match in re.finditer(_SCALED, name) for key, value in match.groupdict().items() if value}
    bare = re.sub(_SCALED, "", name)
    words = as_id(".".join(bare.split()))
    if words in ("tcgen05.accumulator", "accumulator.tcgen05"):
        return MemoryOperand(inventory.instructions()[ACCUMULATOR], "d")
    if words.startswith("tcgen05.mma.kind::"):
        words = words.replace("tcgen05.mma.", "tcgen05.mma.cta_group::1.", 1)
        note(ONE_CTA)
    id_, _, last = words.rpartition(".")
    row = inventory.instructions().get(id_)
    found = _of_form(row, last) if row else None
    if found is None:
        found = _in_words(name, bare, said)
    return found._replace(vector=_scales_said(found, said)) if found and said else found


def _of_form(form: Instruction, last: str) -> MemoryOperand | None:
    if form.family == "tcgen05" and form.multiplies and last == "b":
        raise search.behind_descriptor(form, f"{form.id}.b is in shared memory.")
    return next((each for each in operands(form) if each.name == last), None)


def _scales_said(in_memory: MemoryOperand, said: Mapping[str, str]) -> int | None:
    """Scales of a row: as many as stand there, or as blocks of 16 or 32 elements make; None for other operands."""
    if not in_memory.name.startswith("scale_"):
        return None
    form = in_memory.form
    stored = form.shape.k // (2 if any(held.name == "e" for held in form.operands) else 1)
    return int(said["count"]) if "count" in said else stored // int(said["block"])


def _in_words(name: str, bare: str, said: Mapping[str, str]) -> MemoryOperand | None:
    """The operand that words such as `tcgen05 nvfp4 scale_a` or `tcgen05 cta_group::2 f16 d` mean."""
    match = re.search(_OPERAND, bare)
    rest = f"{bare[: match.start()]} {bare[match.end() :]}".strip() if match else ""
    if match is None or not rest:
        return None
    last = match[1].lower()
    found = [each for form in resolve(rest).instructions if (each := _of_form(form, last))]
    if len(found) > 1 and "cta_group" not in name:
        alone = [each for each in found if "cta_group::1" in each.form.id]
        found = alone if len(alone) == 1 else found
        note(ONE_CTA if len(found) == 1 else None)
    size = next((m[1] for part in read(rest).plain if (m := re.fullmatch("scale_vec::([1-6])x", part))), "")
    if len(found) > 1:
        count = said.get("count", size)
        more = f" scale_vec::{count}X {last}" if count and last.startswith("scale_") else f".{last}"
        ids = [f"{each.form.id}{more}" for each in found]
        if chosen := likely.likeliest(name, [[each.form.id] for each in found]):
            found = [each for each in found if each.form.id == chosen]
        else:
            raise AmbiguousError(f"{quoted(name)} matches {len(ids)} operands: {search.some(ids)}.", name, ids[:6])
    return found[0]._replace(vector=int(size) if size and last.startswith("scale_") else None) if found else None


def operands(instruction: Instruction) -> list[MemoryOperand]:
    """Those of a form that are in tensor memory, A of a multiply among them; none where it holds registers."""
    if instruction.fragments or instruction.family != "tcgen05":
        return []
    return [
        MemoryOperand(instruction, o.name)
        for o in instruction.operands
        if o.place is Place.TENSOR_MEMORY or (instruction.multiplies and o.name == "a")
    ]


class OperandVariant(NamedTuple):
    """Which variant of an operand: M and N (128 and 256 or the largest by default), selector, scales of a row,
    multicast of a copy (the first by default); with `layers` what they have of archs (`name`) counts first."""

    m: int | None = None
    n: int | None = None
    selector: int = 0
    vector: int = 0
    multicast: str | None = None
    layers: Layers | None = None
    name: str | None = None


DEFAULTS = OperandVariant()


def placement(in_memory: MemoryOperand | None, variant: OperandVariant = DEFAULTS) -> Placement:
    """An operand's place; UsageError where the form does not have that variant, and where nobody states it."""
    if in_memory is None:
        raise UsageError("name an operand in tensor memory.")
    form, name = in_memory.form, in_memory.name
    if not form.multiplies:
        return _copy_placement(in_memory, variant)
    selectors = tensor_memory.selectors(form, name, variant.vector)
    if variant.selector not in selectors:
        raise UsageError(f"{in_memory.id} has no selector {variant.selector}: it has {', '.join(map(str, selectors))}.")
    size = Extent(extent(form, "m", variant.m), extent(form, "n", variant.n), variant.selector, variant.vector)
    statements = tensor_memory.statements(form, name, size)
    documented = () if isinstance(statements, str) else statements
    documented_placement = Placement(
        in_memory, size.m, size.n, tensor_memory.accumulator_layout(form.id, size.m), documented
    )
    scales = variant.vector or tensor_memory.vectors(form)[0] if name.startswith("scale_") else 0
    measured_placement = _measured_first(
        documented_placement, measured_as(form, name, (size.m, size.n), (scales, variant.selector)), variant
    )
    if not measured_placement.statements:
        raise UsageError(f"{in_memory.id}: {statements}")
    return measured_placement


def _measured_first(documented: Placement, finding_subject: Subject, variant: OperandVariant) -> Placement:
    """What was measured before what is documented, as far as that says otherwise."""
    if variant.layers is None:
        return documented
    measured_places = find_measured_places(
        documented.operand.form, finding_subject, documented.statements, (variant.layers, variant.name)
    )
    if measured_places is None:
        return documented
    return replace(
        documented, statements=(measured_places.statement, *measured_places.differing), measured_places=measured_places
    )


def extent(instruction: Instruction, name: str, value: int | None) -> int:
    """M or N: as asked for, or the usual one; UsageError where the form does not have it."""
    values = [int(each) for each in instruction.stated[f"{name}_values"]]
    value = value if value is not None else USUAL[name] if USUAL[name] in values else values[-1]
    if value not in values:
        differing = [f" {words}." for words in instruction.stated.get("tables", ())[:1]]
        listed = ", ".join(map(str, values))
        raise UsageError(f"{instruction.id} has no {name.upper()} {value}: it has {listed}.{''.join(differing)}")
    return value


def is_documented(sourced: Sourced) -> bool:
    """Whether somebody documents the very places of a finding."""
    key = subject(sourced.finding.subject)
    assert key is not None
    in_memory = MemoryOperand(inventory.instructions()[key.form], key.operand)
    variant = OperandVariant(key.m, key.n, key.selector, key.vector, key.multicast or None)
    documented, measured = answer_or_none(lambda: placement(in_memory, variant)), statement_of(sourced)
    return documented is not None and any(same_places(statement, measured) for statement in documented.statements)


def _copy_placement(in_memory: MemoryOperand, variant: OperandVariant) -> Placement:
    """What tcgen05.cp writes, of rows and words of the source."""
    if not in_memory.form.id.startswith("tcgen05.cp."):
        raise UsageError(f"{in_memory.form.id}: {SHIFTED}")
    multicasts = [str(name) for name in in_memory.form.stated.get("multicast", ("",))]
    multicast = variant.multicast or multicasts[0]
    if multicast not in multicasts:
        raise UsageError(
            f"{in_memory.form.id} has no multicast {multicast[:40]}: "
            f"it has {', '.join(filter(None, multicasts)) or 'none'}."
        )
    lanes = tensor_memory.copy_lanes(in_memory.form.id.rpartition(".")[2], multicast)
    statement = CellStatement(
        COPIED,
        CELL,
        len(lanes),
        in_memory.form.shape.n,
        lambda row, col: tuple(TensorCell(0, lane, col, 0) for lane in lanes[row]),
    )
    documented = Placement(in_memory, statement.rows, statement.cols, None, (statement,))
    return _measured_first(documented, Subject(in_memory.form.id, "memory", multicast=multicast), variant)


class MeasuredPlaces(NamedTuple):
    """A finding on an arch as a statement; documented ones that say the same, and those that do not."""

    statement: CellStatement
    arch: str
    agreeing: tuple[CellStatement, ...]
    differing: tuple[CellStatement, ...]


def find_measured_places(
    instruction: Instruction, finding_subject: Subject, documented: Stated, known_by: tuple[Layers, str | None]
) -> MeasuredPlaces | None:
    """The finding of a subject on the named archs (comma-separated), or without a name, or with all, on any arch that
    has the form, the newest first; None where nobody measured it."""
    layers, name = known_by
    for row in _archs(instruction, name):
        if sourced := layers.finding(KIND, row, str(finding_subject)):
            statement = statement_of(sourced)
            agreeing = tuple(other for other in documented if same_places(other, statement))
            return MeasuredPlaces(
                statement, row, agreeing, tuple(other for other in documented if other not in agreeing)
            )
    return None


def _archs(instruction: Instruction, name: str | None) -> Sequence[str]:
    if name in (None, "all"):
        return [row.name for row in reversed(ARCHS) if instruction.target.on(row)]
    return [arch(each).name for each in str(name).split(",")]


def statement_of(sourced: Sourced) -> CellStatement:
    """What a finding says; NoMajorityError where as many devices found something else."""
    finding = sourced.settled
    body = finding.body
    places: dict[tuple[int, int], list[TensorCell]] = {}
    for row, col, cta, lane, bit in body.held:
        places.setdefault((row, col), []).append(TensorCell(cta, lane, *divmod(bit, CELL)))
    source = f"measured on {finding.arch}: {how(finding)}, {source_words(sourced.source)}"
    source += f"; {sourced.contradiction}" if sourced.otherwise else ""
    return CellStatement(source, body.bits, body.rows, body.cols, lambda row, col: tuple(places[row, col]))


def same_places(first_statement: CellStatement, second_statement: CellStatement) -> bool:
    """Whether two put every element in the same places."""
    return first_statement[2:4] == second_statement[2:4] and all(
        set(first_statement.holding(row, col)) == set(second_statement.holding(row, col))
        for row in range(first_statement.rows)
        for col in range(first_statement.cols)
    )


class InTensorMemory(NamedTuple):
    """An operand in tensor memory; without one all that a form has there."""

    form: Instruction
    operand: MemoryOperand | None = None

    def shown(self, options: OperandOptions) -> Iterator[ShownMemory]:
        """Every selector and every number of scales; of a whole form what nobody states is said, and is no error."""
        check_arch(self.form, options.arch)
        stated = [f"  sources differ: {words}" for words in self.form.stated.get("tables", ())]
        if self.operand is not None:
            yield ShownMemory("", (), tuple(_maps(self.operand, options, alone=True)), tuple(stated))
            return
        if sizes := self.form.stated.get("scale_vectorsize"):
            stated.insert(0, f"  .scale_vectorsize: {', '.join(map(str, sizes))}, as ptxas 12.9 to 13.5 takes it")
        maps: list[PlacedMap] = []
        for one in operands(self.form):
            if one.form.id == "tcgen05.shift.down":
                maps.append(PlacedMap(self.form.id, self.form.name, {}, None, SHIFTED))
            else:
                maps += _maps(one, options, alone=False)
        yield ShownMemory(self.form.name, (Whole(self.form.name), *stated), tuple(maps), ())

    def where(self, options: OperandOptions, sought: Sought) -> Iterator[LocatedCell]:
        """The cells of elements, or the elements in cells, one after the other."""
        one = self.operand
        assert one is not None  # `in_place` gives forms to `show` alone
        check_arch(self.form, options.arch)
        if sought.ld and one.name != "d":
            raise UsageError(
                "`ld` needs D: tcgen05.ld reads words, and a word of another operand holds several elements."
            )
        if wrong := given(("elements", "byte", *OF_DESCRIPTORS, "warp"), options, sought):
            raise UsageError(
                f"{one.id} is in tensor memory: give `rows` and `cols`, or `lanes` and `columns`; "
                f"{wrong[0]} does not apply to it."
            )
        placed, refused = list[tuple[int | None, Placement]](), None
        for selector in selectors(one, options.vector, options.selector):
            try:
                placed.append((selector, place_operand(one, options, selector)))
            except UsageError as error:  # nobody states it for this selector
                refused = error
        if refused and not placed:
            raise refused
        note(str(refused) if refused else None)
        for selector, placement_ in placed:
            yield from located_cells(placement_, sought, selector)

    def why_not(self, device: Arch, layers: Layers) -> list[WhyNot]:
        """Why an arch does not have it."""
        from tcprobe.ask.absent import why_not_placed

        assert self.operand is not None
        return [why_not_placed(self.operand, device, layers)]


class PlacedMap(NamedTuple):
    """The place of an operand for what is `picked` of selectors and scales; None where nobody states one, and why."""

    id: str
    instruction: str
    picked: dict[str, int]
    placement: Placement | None
    why: str = ""

    @property
    def in_words(self) -> Iterator[str]:
        """Sizes, formulas, evidence and who says otherwise; or why there is no map."""
        picked = "".join(f", {name} {value}" for name, value in self.picked.items())
        if (placement := self.placement) is None:
            yield Whole(SHIFTED if self.why == SHIFTED else f"{self.id}{picked}: {self.why}")
            return
        facts = placement.to_json()
        sizes = f"M {placement.m}, N {placement.n}, " if placement.operand.form.multiplies else ""
        layout = f"layout {placement.letter}, " if placement.letter else ""
        copies = f", in {placement.copies} places" if placement.copies > 1 else ""
        yield (
            f"{self.id}: {sizes}{facts['rows']} x {facts['cols']} in tensor memory, {layout}"
            f"{facts['bits']} bits each, {facts['columns']} columns{copies}{picked}"
        )
        yield from (f"  {name} = {text or 'no closed form'}" for name, text in facts["formula"].items())
        yield f"  {placement.evidence}"
        yield from (f"  differs in {other.source}" for other in placement.statements[1:])

    def to_json(self) -> Json:
        if self.placement is None:
            return plain(NotPlaced.of(self, **self.picked))
        return plain(PlacedAnswer.of(self.placement.answer, **self.picked))


class ShownMemory(NamedTuple):
    """What is in tensor memory: `maps` between lines for people."""

    about: str
    before: tuple[str, ...]
    maps: tuple[PlacedMap, ...]
    after: tuple[str, ...]

    @property
    def in_words(self) -> Iterator[str]:
        """All of it."""
        yield from self.before
        for each in self.maps:
            yield from each.in_words
        yield from self.after

    @property
    def entries(self) -> Iterator[Json]:
        """What `show --json` prints."""
        return (each.to_json() for each in self.maps)


def _maps(in_memory: MemoryOperand, options: OperandOptions, alone: bool) -> Iterator[PlacedMap]:
    """By number of scales and selector; UsageError for the first of an operand `alone` that nobody states."""
    scaled = in_memory.name.startswith("scale_")
    counted = scaled and (options.vector, in_memory.vector) == (None, None)
    for vector in tensor_memory.vectors(in_memory.form) if counted else (options.vector,):
        sizes = options._replace(vector=vector if alone or scaled else None)
        number = None if not alone and in_memory.name in ("a", "d") else options.selector
        for selector in selectors(in_memory, sizes.vector, number):
            chosen = (("scales", sizes.vector), ("selector", selector))
            picked = {name: value for name, value in chosen if value is not None}
            try:
                placed, why = place_operand(in_memory, sizes, selector), ""
            except UsageError as error:
                if alone and selector in (None, 0, options.selector):
                    raise
                placed, why = None, str(error).removeprefix(f"{in_memory.id}: ")
            yield PlacedMap(in_memory.id, in_memory.form.name, picked, placed, why)


class LocatedCell(NamedTuple):
    """An element (None in an empty cell) with its cells, the first and copies; `loaded`: what reads it."""

    placement: Placement
    element: tuple[int, int] | None
    cells: tuple[TensorCell, ...]
    loaded: tensor_memory.Slot | None
    selector: int | None
    by_cell: bool
    about: str = ""

    @property
    def differing(self) -> list[tuple[str, tuple[TensorCell, ...]]]:
        """The sources that put the element elsewhere, and where."""
        if self.by_cell or self.element is None:
            return []
        held = [(other.source, other.holding(*self.element)) for other in self.placement.statements[1:]]
        return [(source, cells) for source, cells in held if cells != self.cells]

    @property
    def in_words(self) -> Iterator[str]:
        """The cells, the register that a load leaves the element in, who says otherwise."""
        placement = self.placement
        name = placement.operand.name.upper()
        element = "nothing" if self.element is None else f"{name}[{self.element[0]}][{self.element[1]}]"
        layout = f"layout {placement.letter}, " if placement.letter else ""
        measured = placement.measured_places
        known = f"measured on {measured.arch}" if measured else "documented"
        picked = "" if self.selector is None else f", selector {self.selector}"
        yield Whole(f"{element}: tensor memory {cells_in_words(self.cells)} ({layout}{known}{picked})")
        if self.loaded:
            yield Whole(f"  loaded: {', '.join(f'{name} {value}' for name, value in self.loaded._asdict().items())}")
        for source, cells in self.differing:
            yield Whole(f"  differs in {source}: {cells_in_words(cells)}")

    def to_json(self) -> Json:
        placement, (first, *copies) = self.placement, self.cells
        row, col = self.element or (None, None)
        answer = LocatedCellAnswer.of(
            placement,
            id=placement.operand.id,
            layout=placement.letter,
            row=row,
            col=col,
            tmem=CellAnswer.of(first),
            bit=first.bit,
            bits=placement.statement.bits,
            copies=copies or UNSET,
            **(self.loaded._asdict() if self.loaded else {}),
            source=placement.statement.source,
            **placement.agreement,
            differs=[DifferingCells(*differing) for differing in self.differing] or UNSET,
            selector=UNSET if self.selector is None else self.selector,
        )
        return plain(answer)


def cells_in_words(tensor_cells: Sequence[TensorCell]) -> str:
    """Places in tensor memory, a bit where it is not the lowest."""
    return "; ".join(
        f"cta {c.cta}, lane {c.lane}, column {c.column}" + (f", bit {c.bit}" if c.bit else "") for c in tensor_cells
    )


def located_cells(placement: Placement, sought: Sought, selector: int | None) -> Iterator[LocatedCell]:
    """Every element, or cell, that is sought; UsageError unless it is just one of the two."""
    elements, cells = _pairs(sought.rows, sought.cols), _pairs(sought.lanes, sought.columns)
    if (elements is None) == (cells is None):
        raise UsageError(
            f"{placement.operand.id} is in tensor memory: give `rows` and `cols`, or `lanes` and `columns`."
        )
    if cells is not None and sought.ld:
        raise UsageError("`ld` needs `rows` and `cols`; `where tcgen05.ld...` says what a register holds.")
    if cells is None and (sought.cta, sought.bit) != (None, None):
        raise UsageError("`cta` and `bit` say which cell, so they need `lanes` and `columns`.")
    for element in elements or ():
        places, loaded = placement.places(*element), None
        if sought.ld:
            landing = tensor_memory.Landing(places[0].cta, places[0].lane, places[0].column)
            loaded = tensor_memory.slot_of_load(landing, *parse_load(sought.ld))
        yield LocatedCell(placement, element, places, loaded, selector, by_cell=False)
    cta, bit, bits = sought.cta or 0, sought.bit or 0, placement.statement.bits
    if cells:
        _check_bounds(placement, cta, bit, cells)
    for lane, column in cells or ():
        held = placement.at(cta, lane, column, bit)
        place = TensorCell(cta, lane, column, bit - bit % bits)
        yield LocatedCell(placement, held, (place,), None, selector, by_cell=True)


def _pairs(firsts: Range, seconds: Range) -> list[tuple[int, int]] | None:
    """All pairs of a first and a second; None unless both are given."""
    return None if firsts is None or seconds is None else list(product(firsts, seconds))


def _check_bounds(placement: Placement, cta: int, bit: int, lane_columns: Sequence[tuple[int, int]]) -> None:
    pairs = (
        ("cta", [cta], 1 + ("cta_group::2" in placement.operand.form.id)),
        ("bit", [bit], CELL),
        ("lane", [lane for lane, _ in lane_columns], LANES),
        ("column", [column for _, column in lane_columns], COLUMNS),
    )
    for name, values, most in pairs:
        if wrong := [value for value in values if value >= most]:
            raise UsageError(f"{placement.operand.id} has no {name} {wrong[0]}: 0 to {most - 1}.")


def tensor_form(name: str) -> Instruction | None:
    """The tcgen05 instruction that a name means and that holds nothing in registers; None where it means no such."""
    row = inventory.instructions().get(as_id(name)) if "tcgen05" in name.lower() else None
    return row if row and not row.fragments else None


def check_arch(instruction: Instruction, name: str | None) -> None:
    """UsageError for an arch that does not have the instruction."""
    for arch_name in (name or "all").split(","):
        if arch_name != "all" and not instruction.target.on(arch(arch_name)):
            raise UsageError(f"{arch_name} does not have {instruction.id}: `tcprobe why-not` says why.")


def selectors(in_memory: MemoryOperand, vector: int | None, number: int | None) -> list[int | None]:
    """The selector `number` that the user gives, else every one there is; [None] for what no selector changes."""
    if not in_memory.form.multiplies or in_memory.name in ("a", "d"):
        if number is not None:
            raise UsageError(f"{in_memory.id} has no selector: remove `selector`.")
        return [None]
    if number is not None:
        return [number]
    return list(tensor_memory.selectors(in_memory.form, in_memory.name, vector_of(in_memory, vector)))


def vector_of(in_memory: MemoryOperand, vector: int | None) -> int:
    """How many scales a row has; UsageError where neither the form nor the user says it."""
    if not in_memory.name.startswith("scale_"):
        if vector is not None:
            raise UsageError(f"`vector` applies to scale_a and scale_b, not to {in_memory.id}.")
        return 0
    vectors, said = tensor_memory.vectors(in_memory.form), in_memory.vector
    if vector is None:
        vector = vectors[0] if said is None and len(vectors) == 1 else said
    elif said not in (None, vector):
        raise UsageError(f"the name says {said} scales per row, and `vector` {vector}: remove one of them.")
    if vector not in vectors:
        counts = " or ".join(map(str, vectors))
        blocks = ""
        if len(vectors) > 1:
            blocks = f" for blocks of 16 (nvfp4's), {vectors[0]} for blocks of 32"
        raise UsageError(f"{in_memory.id} has {counts} scales per row: give `vector` {vectors[-1]}{blocks}.")
    return vector


def place_operand(in_memory: MemoryOperand, options: OperandOptions, selector: int | None) -> Placement:
    """Where an operand lies for the sizes that options give; what was measured on the named arch comes first."""
    form = in_memory.form
    if form.multiplies and options.multicast is not None:
        raise UsageError(f"{form.id} has no multicast; tcgen05.cp has.")
    if not form.multiplies and (options.m, options.n) != (None, None):
        raise UsageError(f"{form.id} has no M and N; tcgen05.mma has.")
    vector = vector_of(in_memory, options.vector)
    sizes = (options.m, options.n, selector or 0, vector, options.multicast)
    return placement(in_memory, OperandVariant(*sizes, options.layers, options.arch))


def parse_load(words: str) -> tuple[str, int]:
    """The shape and repetitions of a tcgen05.ld; UsageError where there is no such load."""
    match = re.fullmatch(r"(\w{1,9})\.x([0-9]{1,3})", words)
    row = match and inventory.instructions().get(f"tcgen05.ld.{match[1]}")
    if not (match and row and int(match[2]) in row.stated["num"]):
        raise UsageError(f"`ld` {words[:40]!r}: expected SHAPE.xN of tcgen05.ld, such as 32x32b.x32.")
    return match[1], int(match[2])
