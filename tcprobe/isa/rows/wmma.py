"""The wmma forms: shapes and types of PTX ISA 9.1, section 9.7.14.4, as rows of wmma.csv.

PTX 6.3 brought .aligned, which names have: of earlier forms it is the least version that takes their text. A fragment
is shared by all multiplies that take it: the load or store that defines it names it. C and D are one experiment: load.c
and store.d, by row and by column, must give one table.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from typing import Literal, NamedTuple

from tcprobe import facts
from tcprobe.isa.arch import Target, read_target
from tcprobe.isa.fragment import Shape, read_shape
from tcprobe.isa.instruction import Definition, Instruction
from tcprobe.isa.inventory import Forms, one_by_one
from tcprobe.isa.operand import WRITTEN
from tcprobe.isa.rows.mma import BIT_OPS, LAYOUTS, TYPES, MultiplyRow, OperandTypes, Pairs


class WmmaRow(NamedTuple):
    """A line of wmma.csv: shapes x layouts of (A, B) x types of A and B (`ab`) x types of D and C (`dc`).

    `registers_ab` are those of A, and of B, where they are more than the elements need.
    """

    shapes: tuple[Shape, ...]
    layouts: Pairs
    ab: Pairs
    dc: Pairs
    bit_op: Literal["xor", "and"] | None
    registers_ab: int | None
    target: Target
    source: str


class _Form(NamedTuple):
    """A multiply of a row."""

    row: WmmaRow
    shape: Shape
    layouts: tuple[str, str]
    types: OperandTypes

    @property
    def name(self) -> str:
        """As PTX writes it."""
        d, a, _, c = self.types
        bits = f".{self.row.bit_op}.popc" if self.row.bit_op else ""
        said = f"{d}.{c}" if a == "f16" else ".".join(self.types)
        return f"wmma.mma{bits}.sync.aligned.{'.'.join(self.layouts)}.{self.shape}.{said}"

    def instruction(self) -> Instruction:
        """With its operands, and the loads and stores that they are of."""
        row, shape, layouts, types = self
        registers = (row.registers_ab, row.registers_ab) if row.registers_ab else None
        multiply = MultiplyRow(shape, types, layouts, row.target, row.bit_op, registers_ab=registers, mixable=())
        definitions = dict(self.definitions())
        return Instruction(
            "wmma", self.name, shape, multiply.operands(), row.target, bit_op=row.bit_op, definitions=definitions
        )

    def definitions(self) -> Iterator[tuple[str, Definition]]:
        """By operand, in PTX's order, the loads and the store that its fragments are of."""
        for name, layout, kind in zip(WRITTEN, (None, *self.layouts, None), self.types, strict=True):
            yield name, _definition(self.shape, name, layout, kind)


@cache  # many multiplies share it
def _definition(shape: Shape, name: str, layout: str | None, kind: str) -> Definition:
    form = f"{'store' if name == 'd' else 'load'}.{name}"
    qualified = f"{name}.{layout}" if layout else name
    return Definition(
        f"wmma.{shape}.{qualified}.{kind}",
        f"wmma.{shape}.{qualified if layout else 'accumulator'}.{kind}",
        f"wmma.{form}.sync.aligned.{layout or 'row'}.{shape}.{kind}",
    )


@cache
def _forms() -> tuple[_Form, ...]:
    rows = facts.read(
        __file__,
        "wmma.csv",
        WmmaRow,
        shapes=lambda cell: tuple(map(read_shape, facts.words(cell))),
        layouts=LAYOUTS,
        ab=TYPES,
        dc=TYPES,
        bit_op=BIT_OPS,
        registers_ab=facts.optional(facts.number),
        target=read_target,
    )
    return tuple(
        _Form(row, shape, layouts, (d, a, b, c))
        for row in rows
        for shape, (a, b), layouts, (d, c) in product(row.shapes, row.ab, row.layouts, row.dc)
    )


class _WmmaForms(Forms):
    """The forms of wmma, which take fragments that experiments of their own measure."""

    def measured_by(self, by_experiment: Mapping[str, Sequence[str]]) -> Iterable[str]:
        """Ids of the fragments that are those operands of experiments, in the order of the forms; no form is made."""
        defined = (definition for form in _forms() for definition in form.definitions())
        return dict.fromkeys(d.id for operand, d in defined if operand in by_experiment.get(d.experiment, ()))


INSTRUCTIONS = _WmmaForms(
    ("wmma",), ("wmma.",), one_by_one(lambda: ((form.name, form.instruction) for form in _forms()))
)
