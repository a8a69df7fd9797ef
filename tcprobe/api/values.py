"""What the functions of `import tcprobe` give: a fragment's table and a multiply's, which print and draw themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from html import escape
from typing import TYPE_CHECKING

from tcprobe.ask.describe import bases
from tcprobe.fit import fitted
from tcprobe.question.arguments import checked
from tcprobe.store.cell import Cell
from tcprobe.values import Json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tcprobe.ask.registers import Holder, Trace
    from tcprobe.isa.instruction import Instruction

HOLE = -1  # in `array`, where a slot holds nothing
MOST_DRAWN = 1024  # elements of a fragment that a notebook draws


@dataclass(frozen=True, repr=False)
class FragmentAnswer(Cell):
    """A fragment on an arch: its table, formulas and bases, and what they rest on.

    >>> import tcprobe
    >>> a = tcprobe.fragment("mma m16n8k16 bf16 a")
    >>> a
    <mma.m16n8k16.row.col.f32.bf16.bf16.f32.a on sm_90, 16 x 16 of bf16, measured live>
    >>> a.formulas["row"], a.at(lane=12, i=5)
    ('((i & 2) << 2) + (lane >> 2)', (3, 9))
    >>> a.bases["lane"]
    [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)]
    >>> a.array.shape, a.array[12, 5].tolist()
    ((32, 8, 2), [3, 9])
    """

    @classmethod
    def from_cell(cls, cell: Cell) -> FragmentAnswer:
        """A table of the store as a program gets it."""
        return cls(**{field.name: getattr(cell, field.name) for field in fields(cell)})

    @property
    def id(self) -> str:
        """The fragment's id, as `tcprobe list` has it."""
        return self.fragment.id

    @property
    def formulas(self) -> dict[str, str | None]:
        """By output the formula in `lane` and `i`, valid C and Python; None where there is no closed form."""
        return {name: str(formula) if formula else None for name, formula in fitted(self.table).formulas.items()}

    @property
    def bases(self) -> dict[str, list[tuple[int, ...]]] | None:
        """By "lane" and "register" what each bit of the lane's number and of i, the lowest first, adds by XOR.

        (row, col), and where a warp holds several products (row, col, product). In a warpgroup "lane" is the thread,
        7 bits. None where the map is not linear.
        """
        images = bases(fitted(self.table).layout)
        return None if images is None else {name: [tuple(image) for image in images] for name, images in images.items()}

    @property
    def array(self) -> NDArray[np.int64]:
        """The table, shape (threads, elements of a thread, outputs): row, col; -1 where a slot holds nothing."""
        import numpy as np

        table, hole = self.table, (HOLE,) * len(self.table.outputs)
        slots = [hole if cell is None else cell for cell in table.cells]
        return np.array(slots, np.int64).reshape(table.threads, table.elements, len(table.outputs))

    @checked
    def at(self, lane: int, i: int) -> tuple[int, ...] | None:
        """(row, col) of the element that a slot holds, None where it holds nothing; UsageError outside the table."""
        self.table.space.number(lane=lane, i=i)
        return self.table.cells[lane * self.table.elements + i]

    @checked
    def where(self, row: int, col: int) -> list[Holder]:
        """Who holds an element: lane, i, register and bits of each; UsageError outside the fragment."""
        from tcprobe.ask.registers import where

        return where(self, rows=[row], cols=[col])

    @checked
    def emit(self, to: str) -> str:
        """The table in one of the formats of `tcprobe emit`: "cuda", "cute", "triton", ..."""
        from tcprobe.emit import emit

        return emit(to, [self])

    def _repr_svg_(self) -> str | None:
        """For a notebook: the matrix with its holders in colours; None where it is too large to be looked at."""
        from tcprobe.ask import matrix_picture
        from tcprobe.errors import answer_or_none

        if self.fragment.rows * self.fragment.cols > MOST_DRAWN:
            return None
        return answer_or_none(lambda: matrix_picture.titled_picture(self))

    def _repr_html_(self) -> str:
        """For a notebook: whose table, the formulas, the picture where it can be looked at, the evidence."""
        if drawn := self._repr_svg_():
            return f"{drawn}<p>{escape(self.evidence)}</p>"
        lines = [f"{name} = {text or 'no closed form'}" for name, text in self.formulas.items()]
        head = f"<b>{escape(self.id)}</b> on {escape(self.arch)}<pre>{escape(chr(10).join(lines))}</pre>"
        return f"{head}<p>{escape(self.evidence)}</p>"


def answer_of(cell: Cell) -> FragmentAnswer:
    """A table as a program gets it; of a layout's text or a tile one that can be compared with others."""
    if not cell.in_cta(0):
        return FragmentAnswer.from_cell(cell)
    from tcprobe.api.layout import LayoutAnswer

    return LayoutAnswer.from_cell(cell)


@dataclass(frozen=True, repr=False)
class MultiplyAnswer(Mapping[str, FragmentAnswer]):
    """A multiply on an arch: its operands by letter.

    >>> import tcprobe
    >>> multiply = tcprobe.instruction("mma m16n8k16 bf16")
    >>> list(multiply), multiply["d"].formulas["row"]
    (['a', 'b', 'c', 'd'], '((i & 2) << 2) + (lane >> 2)')
    >>> [str(meeting.a[0]) for meeting in multiply.trace(row=0, col=0).meetings[:2]]
    ['lane 0 i 0 (register 0, bits 0..15)', 'lane 0 i 1 (register 0, bits 16..31)']
    """

    row: Instruction
    operands: Mapping[str, FragmentAnswer]

    @property
    def id(self) -> str:
        """The instruction's id, as `tcprobe list` has it."""
        return self.row.id

    def __getitem__(self, operand: str) -> FragmentAnswer:
        return self.operands[operand]

    def __iter__(self) -> Iterator[str]:
        return iter(self.operands)

    def __len__(self) -> int:
        return len(self.operands)

    def __repr__(self) -> str:
        arch = next((operand.arch for operand in self.operands.values()), "no arch")
        return f"<{self.id} on {arch}: operands {', '.join(self.operands)}>"

    @checked
    def trace(self, row: int, col: int, product: int | None = None) -> Trace:
        """Every slot of A and B that feeds an element of D; UsageError for an element that D does not have."""
        from tcprobe.ask.registers import trace

        tables: Json = dict(self.operands)
        return trace(self.row, tables, row=row, col=col, product=product)

    def _repr_html_(self) -> str:
        """For a notebook: every operand, one below the other."""
        return "".join(operand._repr_html_() for operand in self.operands.values())
