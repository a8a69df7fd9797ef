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
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from tcprobe.ask.tensor_memory_measured import MeasuredPlaces, find_measured_places, same_places, statement_of
from tcprobe.errors import AmbiguousError, UsageError, answer_or_none
from tcprobe.fit import fitted
from tcprobe.fit.formula import Formula
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch as arch_row
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.names import resolve, search
from tcprobe.isa.names.search import short
from tcprobe.isa.names.words import read
from tcprobe.isa.operand import Place
from tcprobe.layout.table import Axis, Space, Table
from tcprobe.references import accumulator, memory_operand
from tcprobe.references import tensor_memory as copies
from tcprobe.references.memory_operand import CELL, LANES, CellStatement, Extent, TensorCell
from tcprobe.store.choose import Layers
from tcprobe.store.finding import Sourced
from tcprobe.store.kinds.tensor_memory import Subject, measured_as, subject
from tcprobe.text import quoted
from tcprobe.values import Json

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

    @property
    def is_copy(self) -> bool:
        """Whether it is what tcgen05.cp writes."""
        return self.form.id.startswith("tcgen05.cp.")


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
    def status(self) -> str:
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
    def agreement(self) -> Json:
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
        """The first element of each place: a metadata field of 4-bit types speaks for two."""
        statement, holding = self.statement, dict[TensorCell, tuple[int, int]]()
        for row in range(statement.rows):
            for col in range(statement.cols):
                for place in statement.holding(row, col):
                    holding.setdefault(place, (row, col))
        return holding

    def at(self, cta: int, lane: int, column: int, bit: int) -> tuple[int, int] | None:
        """The element that has a bit of a cell, None where none has."""
        return self._holding.get(TensorCell(cta, lane, column, bit - bit % self.statement.bits))

    @cached_property
    def table(self) -> Table:
        """From cta (of two), lane, column and part (of a cell that holds several elements) to row and col."""
        parts = CELL // self.statement.bits
        ctas, columns = (1 + max(getattr(place, name) for place in self._holding) for name in ("cta", "column"))
        axes = [Axis("cta", ctas), Axis("lane", LANES), Axis("column", columns), Axis("part", parts)]
        space = Space(tuple(axis for axis in axes if axis.size > 1 or axis.name in ("lane", "column")))
        cells = [
            self._holding.get(TensorCell(cta, lane, column, part * self.statement.bits))
            for cta in range(ctas)
            for lane in range(LANES)
            for column in range(columns)
            for part in range(parts)
        ]
        rows, cols = (tuple(cell and cell[index] for cell in cells) for index in (0, 1))
        return Table(space, {"row": rows, "col": cols})

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
        statement = self.statement
        return {
            "id": self.operand.id,
            "instruction": self.operand.form.name,
            "operand": self.operand.name,
            "place": Place.TENSOR_MEMORY.value,
            "m": self.m,
            "n": self.n,
            "rows": statement.rows,
            "cols": statement.cols,
            "bits": statement.bits,
            "layout": self.letter,
            "held": self.copies,
            "columns": self.table.space.axes[self.table.space.names.index("column")].size,
            "formula": {name: formula and str(formula) for name, formula in self.formulas.items()},
            "source": statement.source,
            "differs": [other.source for other in self.statements[1:]],
            "status": self.status,
            **self.agreement,
        }


def operand(name: str) -> MemoryOperand | None:
    """The operand in tensor memory that a name means; None where it means none, or something in registers."""
    words = short(".".join(name.split()))
    if words in ("tcgen05.accumulator", "accumulator.tcgen05"):
        return MemoryOperand(inventory.instructions()[ACCUMULATOR], "d")
    id_, _, last = words.rpartition(".")
    row = inventory.instructions().get(id_)
    if row and row.family == "tcgen05" and row.multiplies and last == "b":
        raise UsageError(f"{words} is in shared memory.", "behind tcgen05")
    found = next((each for each in operands(row) if each.name == last), None) if row else None
    return found or _scales_in_words(name)


def _scales_in_words(name: str) -> MemoryOperand | None:
    """The scales that words such as `tcgen05 nvfp4 scale_a` mean, and how many a row has; None where they mean none.

    AmbiguousError where several forms have them.
    """
    match = re.search(r"(?i)(?:^|[\s.])(scale_[ab])(?=\s|$)", name)
    if match is None:
        return None
    rest = f"{name[: match.start()]} {name[match.end() :]}".strip()
    size = next((m[1] for part in read(rest).plain if (m := re.fullmatch("scale_vec::([124])x", part))), "")
    last, forms = match[1].lower(), resolve(rest).instructions if rest else []
    found = [each for form in forms for each in operands(form) if each.name == last]
    if len(found) > 1:
        more = f" scale_vec::{size}X {last}" if size else f".{last}"
        ids = [f"{each.form.id}{more}" for each in found]
        raise AmbiguousError(f"{quoted(name)} matches {len(ids)} operands: {search.some(ids)}.", name, ids[:6])
    return found[0]._replace(vector=int(size) if size else None) if found else None


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
    selectors = memory_operand.selectors(form, name, variant.vector)
    if variant.selector not in selectors:
        raise UsageError(f"{in_memory.id} has no selector {variant.selector}: it has {', '.join(map(str, selectors))}.")
    size = Extent(extent(form, "m", variant.m), extent(form, "n", variant.n), variant.selector, variant.vector)
    statements = memory_operand.statements(form, name, size)
    documented = () if isinstance(statements, str) else statements
    documented_placement = Placement(in_memory, size.m, size.n, accumulator.layout(form.id, size.m), documented)
    scales = variant.vector or memory_operand.vectors(form)[0] if name.startswith("scale_") else 0
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
    if not in_memory.is_copy:
        raise UsageError(f"{in_memory.form.id}: {SHIFTED}")
    multicasts = [str(name) for name in in_memory.form.stated.get("multicast", ("",))]
    multicast = variant.multicast or multicasts[0]
    if multicast not in multicasts:
        raise UsageError(
            f"{in_memory.form.id} has no multicast {multicast[:40]}: "
            f"it has {', '.join(filter(None, multicasts)) or 'none'}."
        )
    lanes = copies.lanes(in_memory.form.id.rpartition(".")[2], multicast)
    statement = CellStatement(
        COPIED,
        CELL,
        len(lanes),
        in_memory.form.shape.n,
        lambda row, col: tuple(TensorCell(0, lane, col, 0) for lane in lanes[row]),
    )
    documented = Placement(in_memory, statement.rows, statement.cols, None, (statement,))
    return _measured_first(documented, Subject(in_memory.form.id, "memory", multicast=multicast), variant)


def check_arch(instruction: Instruction, name: str | None) -> None:
    """UsageError for an arch that does not have the instruction."""
    for arch_name in (name or "all").split(","):
        if arch_name != "all" and not instruction.target.on(arch_row(arch_name)):
            raise UsageError(f"{arch_name} does not have {instruction.id}: `tcprobe why-not` says why.")


def vector_of(in_memory: MemoryOperand, vector: int | None) -> int:
    """How many scales a row has; UsageError where neither the form nor the user says it."""
    if not in_memory.name.startswith("scale_"):
        if vector is not None:
            raise UsageError(f"`vector` applies to scale_a and scale_b, not to {in_memory.id}.")
        return 0
    vectors, said = memory_operand.vectors(in_memory.form), in_memory.vector
    if vector is None:
        vector = vectors[0] if said is None and len(vectors) == 1 else said
    elif said not in (None, vector):
        raise UsageError(f"the name says {said} scales per row, and `vector` {vector}: remove one of them.")
    if vector not in vectors:
        counts = " or ".join(map(str, vectors))
        raise UsageError(f"{in_memory.id} has {counts} scales per row: give `vector` {vectors[-1]}.")
    return vector
