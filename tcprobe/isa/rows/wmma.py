"""The wmma forms: shapes and types of PTX ISA 9.1, section 9.7.14.4, as rows.

A row stands for its shapes x types x layouts. A fragment is shared by all multiplies that take it: the load or store
that defines it names it. C and D are one experiment: load.c and store.d, by row and by column, must give one table.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from typing import Literal, NamedTuple

from tcprobe.isa.forms import Forms, one_by_one
from tcprobe.isa.fragment import Shape
from tcprobe.isa.instruction import Definition, Instruction
from tcprobe.isa.multiply import MultiplyRow, OperandTypes
from tcprobe.isa.operand import WRITTEN
from tcprobe.isa.target import target

WIDE = ((16, 16, 16), (8, 32, 16), (32, 8, 16))
ANY = (("row", "row"), ("row", "col"), ("col", "row"), ("col", "col"))
ROW_COL = (("row", "col"),)
ALIGNED = "6.3"  # PTX version that brought .aligned, which names have: of earlier forms the least that takes their text


class WmmaRow(NamedTuple):
    """Shapes x `types` of A and B x accumulator types of D and of C x layouts of (A, B)."""

    shapes: tuple[tuple[int, int, int], ...]
    types: tuple[str, ...]
    accumulators: tuple[str, ...]
    layouts: tuple[tuple[str, str], ...]
    target: str
    ptx: str
    bit_op: Literal["xor", "and"] | None = None
    registers_ab: tuple[int, int] | None = None
    stated: str | None = None


ROWS = (
    WmmaRow(WIDE[:1], ("f16",), ("f16", "f32"), ANY, "sm_70", ALIGNED, registers_ab=(8, 8), stated="6.0"),
    WmmaRow(WIDE[1:], ("f16",), ("f16", "f32"), ANY, "sm_70", ALIGNED, registers_ab=(8, 8), stated="6.1"),
    WmmaRow(WIDE, ("bf16",), ("f32",), ANY, "sm_80", "7.0"),
    WmmaRow(WIDE, ("u8", "s8"), ("s32",), ANY, "sm_72", "6.3"),
    WmmaRow(((16, 16, 8),), ("tf32",), ("f32",), ANY, "sm_80", "7.0"),
    WmmaRow(((8, 8, 4),), ("f64",), ("f64",), ANY, "sm_80", "7.0"),
    WmmaRow(((8, 8, 32),), ("u4", "s4"), ("s32",), ROW_COL, "sm_75", "6.3"),
    WmmaRow(((8, 8, 128),), ("b1",), ("s32",), ROW_COL, "sm_75", "6.3", "xor"),
    WmmaRow(((8, 8, 128),), ("b1",), ("s32",), ROW_COL, "sm_80", "7.1", "and"),
)


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
        least = target(row.target, row.ptx, stated=row.stated)
        multiply = MultiplyRow(shape, types, layouts, least, row.bit_op, registers_ab=row.registers_ab, mixable=())
        definitions = dict(self.definitions())
        return Instruction(
            "wmma", self.name, shape, multiply.operands(), least, bit_op=row.bit_op, definitions=definitions
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


def _forms() -> Iterator[_Form]:
    for row in ROWS:
        for shape, ab, layouts in product(row.shapes, row.types, row.layouts):
            for d, c in product(row.accumulators, repeat=2):
                yield _Form(row, Shape(*shape), layouts, (d, ab, ab, c))


class _WmmaForms(Forms):
    """The forms of wmma, which take fragments that experiments of their own measure."""

    def measured_by(self, by_experiment: Mapping[str, Sequence[str]]) -> Iterable[str]:
        """Ids of the fragments that are those operands of experiments, in the order of the forms; no form is made."""
        defined = (definition for form in _forms() for definition in form.definitions())
        return dict.fromkeys(d.id for operand, d in defined if operand in by_experiment.get(d.experiment, ()))


INSTRUCTIONS = _WmmaForms(
    ("wmma",), ("wmma.",), one_by_one(lambda: ((form.name, form.instruction) for form in _forms()))
)
