"""What a fragment's section of the PTX ISA prints: formulas of row and column in the document's own variables.

groupID = %laneid >> 2, threadID_in_group = %laneid % 4 (here `group` and `member`); i counts a thread's elements.
"""

from collections.abc import Callable
from typing import NamedTuple

from tcprobe.isa import inventory
from tcprobe.isa.fragment import Fragment

Map = Callable[[int, int], int]


class FormulaRow(NamedTuple):
    """A fragment of section 9.7.14.5 or 9.7.14.6. `with_a`: only of instructions with one of these types of A."""

    shape: str
    operands: str
    types: str
    section: str
    row: Map
    col: Map
    layout: str | None = None
    product: Map | None = None
    with_a: str | None = None
    printed_col: Map | None = None
    erratum: str | None = None

    def covers(self, fragment: Fragment) -> bool:
        """Whether the section is about this fragment."""
        a_type = inventory.instructions()[fragment.experiment].type("a")
        return (
            str(fragment.shape) == self.shape
            and fragment.operand in self.operands
            and fragment.type in self.types.split()
            and self.layout in (None, fragment.layout)
            and (self.product is None) == (fragment.products == 1)
            and (self.with_a is None or a_type in self.with_a.split())
        )


def group(lane: int) -> int:
    """groupID."""
    return lane >> 2


def member(lane: int) -> int:
    """threadID_in_group."""
    return lane % 4
