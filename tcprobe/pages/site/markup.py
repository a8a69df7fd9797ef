"""Pages as text: templates filled in, with everything escaped that a template does not vouch for.

HTML of matrices and register tables is made from numbers alone; text, code and data for the script are escaped here.

Cells and rows have their end tags, which HTML lets one leave out: parsers that only split text into tags need them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tcprobe import __version__
from tcprobe.isa.fragment import Fragment
from tcprobe.layout.grid import Block, lane_registers
from tcprobe.text import escaped
from tcprobe.values import Json

MOST_MATRIX, MOST_REGISTERS = 40_000, 18_000  # characters that a page has of a table; the script draws the rest
_MARKS = re.compile("<|&(?! )")  # that are not text between tags


class Drawn(NamedTuple):
    """The markup of a table, and how many of its rows that has."""

    markup: Markup
    rows: int


def colour(thread: int) -> int:
    """0 to 7: the hue by thread & 3, the tone by (thread >> 2) & 1."""
    return (thread & 3) + 4 * (thread >> 2 & 1)


def matrix(block: Block, most: int = MOST_MATRIX) -> Drawn:
    """Rows of a matrix: its numbers in heads, in each cell the holders, which the script colours."""
    columns = sum(piece.span for piece in block.pieces[0])
    step = max((piece.span for piece in block.pieces[0]), default=1)
    heads = "".join(f"<th{_span(step)}>{col}</th>" for col in range(0, columns, step))
    cells = ("".join(f"<td{_span(piece.span)}>{piece.text}</td>" for piece in pieces) for pieces in block.pieces)
    return _table(heads, (f"<tr><th>{row}</th>{text}</tr>" for row, text in enumerate(cells)), most)


def _table(heads: str, row_texts: Iterable[str], most: int) -> Drawn:
    """Heads, and as many rows as have `most` characters together; numbers only, so that nothing is to be escaped."""
    sizes, kept = 0, list[str]()
    for row in row_texts:
        sizes += len(row)
        if kept and sizes > most:
            break
        kept.append(row)
    return Drawn(Markup(f"<thead><tr><td></td>{heads}</tr></thead><tbody>{''.join(kept)}</tbody>"), len(kept))


def _span(count: int) -> str:
    return f" colspan={count}" if count > 1 else ""


def registers(block: Block, fragment: Fragment, most: int = MOST_REGISTERS) -> Drawn:
    """A row for each thread that holds anything: its registers with their elements."""
    heads = "".join(f"<th>r{number}</th>" for number in range(fragment.registers))
    lanes = (
        (lane.number, "".join(f"<td>{text}</td>" for text in lane.registers))
        for lane in lane_registers(block, fragment)
    )
    return _table(heads, (f"<tr><th>{number}</th>{cells}</tr>" for number, cells in lanes), most)


def text(words: str) -> Markup:
    """Text between tags, where > and quotes stand for themselves, and & before a blank too."""
    escaped_text = "\n".join(map(escaped, words.split("\n")))
    return Markup(_MARKS.sub(lambda mark: "&lt;" if mark[0] == "<" else "&amp;", escaped_text))  # nothing begins a tag


def data(value: object) -> Markup:
    """JSON for a script element, in which nothing ends the element."""
    return Markup(plain(value))  # <, > and & are escaped


def plain(value: object) -> str:
    """JSON on one line, with <, > and & escaped."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


LinkList = list[tuple[str, str]]
Links = Sequence[tuple[str, str]]  # (text, address, which may be empty)


class View(NamedTuple):
    """A page before it is text: its address, the template, and what that shows."""

    page: str
    template: str
    title: str
    about: str
    shows: Json


class ListPart(NamedTuple):
    """A part of a page that is a list: head, words, a table of linked texts, links, code; what is empty is left out.

    A table that `sorts` has heads to click on, and a box for words.
    """

    head: str = ""
    anchor: str = ""
    words: str = ""
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[Links]] = ()
    links: Links = ()
    code: str = ""
    sorts: bool = False


def list_page(page: str, title: str, about: str, paragraphs: Sequence[str], list_parts: Sequence[ListPart]) -> View:
    """A page of paragraphs and of lists."""
    return View(page, "list", title, about, {"paragraphs": paragraphs, "parts": list_parts})


def filled(list_parts: Sequence[ListPart]) -> list[ListPart]:
    """The parts that have anything below their heads."""
    return [part for part in list_parts if part.rows or part.links or part.code]


def cells(*texts: object) -> list[LinkList]:
    """A row of a table of texts without links."""
    return [[(str(text), "")] for text in texts]


def render(view: View) -> str:
    """The text of a page; links in it are relative to its own folder."""
    root = "../" * view.page.count("/")
    template = _environment().get_template(f"{view.template}.html")
    return template.render(root=root, version=__version__, title=view.title, about=view.about, **view.shows)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("tcprobe.pages.site"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["text"] = text
    return environment


def _finalize(value: object) -> object:
    """Text without characters that cannot be printed; markup made here has none."""
    if type(value) is str and not value.isprintable():
        return "\n".join(map(escaped, value.split("\n")))
    return value
