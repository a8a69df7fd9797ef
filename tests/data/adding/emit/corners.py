"""A format that tcprobe does not have: the first and the last element of each table, by holder."""

WHAT = "first and last element"
ARCHS = "any"


def emit(cells):
    """A line a table; slots that hold nothing count as none."""
    return "\n".join(f"{cell.fragment.id} {min(_held(cell))} {max(_held(cell))}" for cell in cells)


def _held(cell):
    return [element for element in cell.table.cells if element is not None]
