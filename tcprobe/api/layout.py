"""What `tcprobe.layout` gives: a layout's text as a fragment, which can be compared with another one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tcprobe.api.values import FragmentAnswer
from tcprobe.errors import UsageError
from tcprobe.layout.table import Table
from tcprobe.notation import is_written
from tcprobe.store import names
from tcprobe.store.cell import Cell
from tcprobe.store.choose import Layers
from tcprobe.store.written import WrittenCell
from tcprobe.text import quoted


@dataclass(frozen=True, repr=False)
class LayoutAnswer(FragmentAnswer, WrittenCell):
    """A layout as a fragment: its table, formulas and bases; of memory, what is at each element offset.

    >>> import tcprobe
    >>> swizzled = tcprobe.layout("Sw<3,3,3> o 0 o (8,64):(64,1)")
    >>> swizzled.table.at(lane=0, i=72), swizzled.agrees("Sw<3,4,3> o smem_ptr[16b](unset) o (8,64):(64,1)")
    ({'row': 1, 'col': 0}, True)
    """

    @property
    def same_layout(self) -> list[str]:
        """Ids of the fragments that it is."""
        return self.alike

    def agrees(self, other: str | Cell) -> bool:
        """Whether every slot holds the same element as in another layout, or every offset has it.

        A text is over this one's tile where it says no other. CuTe's B, N x K, agrees with a fragment's K x N.
        """
        cell = names.find_cell(self._over_own(other), self.arch, self.layers).cell if isinstance(other, str) else other
        if not isinstance(cell, Cell):
            raise UsageError("`other` is neither a layout's text, nor a fragment.")
        return any(table == cell.table for table in self._ways(cell))

    def _over_own(self, other: str) -> str:
        from tcprobe.notation import spelled, with_options

        if not is_written(other) or self.tiling is not None or spelled(other).over:
            return other
        return with_options(other, over=f"{self.fragment.rows}x{self.fragment.cols}")

    def _ways(self, other: Cell) -> Iterator[Table]:
        """The table, and its transpose where just one of both is CuTe's B."""
        yield self.table
        if self.turned != getattr(other, "turned", False) and "b" in (other.fragment.operand, self.fragment.operand):
            yield self.table.with_values({"row": self.table.values["col"], "col": self.table.values["row"]})


def layout_of(text: str, arch_name: str | None, layers: Layers) -> LayoutAnswer:
    """The layout of a text; UsageError where it is a plain name."""
    if not is_written(text):
        raise UsageError(
            f"{quoted(text)} is no layout's text: `tcprobe layouts` lists what is; or give `warps` and `tile`."
        )
    answer = LayoutAnswer.from_cell(names.find_cell(text, arch_name, layers).cell)
    assert isinstance(answer, LayoutAnswer)
    return answer
