"""HTML of matrices and register tables, made from numbers alone; and of data for the script."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tcprobe.isa.fragment import Fragment
from tcprobe.layout.grid import Block, Stretch, lanes

if TYPE_CHECKING:
    from markupsafe import Markup

MOST_MATRIX, MOST_REGISTERS = 40_000, 12_000  # characters that a page has of a table; the script draws the rest
_DATA = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


class Drawn(NamedTuple):
    """The markup of a table, and how many of its rows that has."""

    markup: Markup
    rows: int


def colour(thread: int) -> int:
    """0 to 7: the hue by thread & 3, the tone by (thread >> 2) & 1."""
    return (thread & 3) + 4 * (thread >> 2 & 1)


def classes(piece: Stretch) -> str:
    """Colours of the first two threads that hold a piece."""
    threads = piece.threads
    if not threads:
        return ""
    return f"c{colour(threads[0])}" + (f" d{colour(threads[1])}" if len(threads) > 1 else "")


def matrix(block: Block, coloured: bool = True, most: int = MOST_MATRIX) -> Drawn:
    """Rows of a matrix: its numbers in heads, in each cell the holders, if wanted in the colours of their threads."""
    columns = sum(piece.span for piece in block.pieces[0])
    step = max((piece.span for piece in block.pieces[0]), default=1)
    heads = "".join(f"<th{_span(step)}>{col}</th>" for col in range(0, columns, step))
    rows = (
        f"<tr><th>{row}</th>{''.join(_cell(p, coloured) for p in pieces)}</tr>"
        for row, pieces in enumerate(block.pieces)
    )
    return _table(heads, rows, most)


def _table(heads: str, rows: Iterable[str], most: int, end: str = "</tr>") -> Drawn:
    """Heads, and as many rows as have `most` characters together; numbers only, so that nothing is to be escaped."""
    from markupsafe import Markup

    sizes, found = 0, list[str]()
    for row in rows:
        sizes += len(row)
        if found and sizes > most:
            break
        found.append(row)
    return Drawn(Markup(f"<thead><tr><td></td>{heads}{end}</thead><tbody>{''.join(found)}</tbody>"), len(found))


def _cell(piece: Stretch, coloured: bool) -> str:
    of = classes(piece) if coloured else ""
    quoted = f' class="{of}"' if " " in of else f" class={of}" if of else ""
    return f"<td{quoted}{_span(piece.span)}>{piece.text}</td>"


def _span(count: int) -> str:
    return f" colspan={count}" if count > 1 else ""


def registers(block: Block, fragment: Fragment, coloured: bool = True, most: int = MOST_REGISTERS) -> Drawn:
    """A row for each thread that holds anything: its registers with their elements; end tags are left out."""
    heads = "".join(f"<th>r{number}" for number in range(fragment.registers))
    rows = (
        f"<tr{f' class=c{colour(lane.number)}' if coloured else ''}><th>{lane.number}{_texts(lane.registers)}"
        for lane in lanes(block, fragment)
    )
    return _table(heads, rows, most, "")


def _texts(texts: Sequence[str]) -> str:
    return "".join(f"<td>{text}" for text in texts)


def data(value: object) -> Markup:
    """JSON for a script element, in which nothing ends the element."""
    from markupsafe import Markup

    return Markup(plain(value))  # <, > and & are spelled out


def plain(value: object) -> str:
    """JSON on one line, with <, > and & spelled out."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True).translate(_DATA)


def ranges(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """(first, how many) of the runs of ascending numbers."""
    start = previous = None
    for number in numbers:
        if previous is not None and number == previous + 1:
            previous = number
            continue
        if start is not None and previous is not None:
            yield start, previous - start + 1
        start = previous = number
    if start is not None and previous is not None:
        yield start, previous - start + 1
