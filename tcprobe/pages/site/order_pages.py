"""In which order programs sum: where along M the order changes, drawn as bars, and each order in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from math import log2
from typing import NamedTuple

from tcprobe.pages.orders import in_words, letters, measured, span, title
from tcprobe.pages.site.addresses import slug
from tcprobe.pages.site.facts import Facts
from tcprobe.pages.site.markup import View
from tcprobe.store.finding import Finding
from tcprobe.store.kinds.order import Body, MRange, words

ORDER_PAGE = "orders.html"
LEFT, WIDE, HIGH, GAP = 130, 560, 20, 6  # of a bar: the text on its left, its length, its height, below it
ABOUT = (
    "Found by calling a program on a GPU and proven on random operands: every bit of D follows from the order. Within "
    "a range of M the order is the same, as far as its sizes were called; where it changes, a row of D has other bits "
    "in a larger or smaller batch. Elements counted under elsewhere follow another order because of their place in D."
)
HEADS = ("N", "K", "order", "M", "elements", "different", "elsewhere", "in words")
SHADES = (0.08, 0.3, 0.18, 0.4)
LETTER_WIDE = 9  # pixels of a bar that has its letter in it


class Bars(NamedTuple):
    """The ranges of M of one order of a product: a path of their outlines, letters at (x), and words."""

    path: str
    shade: float
    letter: str
    labels: Sequence[float]
    words: str


class Drawn(NamedTuple):
    """A product as it is drawn: its top, its name, the bars of each order."""

    top: int
    name: str
    bars: Sequence[Bars]


def order_pages(facts: Facts) -> Iterator[View]:
    """A page for each program, library and types; one that lists them, where anybody found an order."""
    parts = [part for arch in facts.archs for part in _parts(facts, arch)]
    if not parts:
        return
    about = "The order of sums of libraries, as found"
    listed = [{**part, "page": f"o/{slug(str(part['head']))}.html"} for part in parts]
    shows = {"paragraphs": [ABOUT], "parts": [], "links": [(part["page"], part["head"]) for part in listed]}
    yield View(ORDER_PAGE, "orders", "In which order programs sum", about, shows)
    for part in listed:
        shows = {"paragraphs": [ABOUT], "parts": [part], "heads": HEADS, "links": []}
        yield View(str(part["page"]), "orders", f"Order of sums, {part['head']}", about, shows)


def _parts(facts: Facts, arch: str) -> Iterator[dict[str, object]]:
    for number, (head, together) in enumerate(groupby(measured(facts.layers, arch), key=lambda one: title(one.body))):
        findings: list[Finding] = list(together)
        bodies = [finding.body for finding in findings]
        most = max(2, *(body.ranges[-1].last for body in bodies))
        yield {
            "head": f"{arch}: {head}",
            "anchor": f"{arch}-{number}",
            "words": f"{words(findings)}.",
            "drawn": [
                Drawn((HIGH + GAP) * place + HIGH, f"N {body.n}, K {body.k}", list(_bars(body, place, most)))
                for place, body in enumerate(bodies)
            ],
            "height": (HIGH + GAP) * len(bodies) + HIGH,
            "ticks": [(round(_x(1 << power, most)), 1 << power) for power in range(0, int(log2(most)) + 1, 2)],
            "rows": [row for body in bodies for row in _rows(body)],
        }


def _rows(body: Body) -> Iterator[list[str]]:
    """A row for each order of a product: its ranges of M, elements compared, those that differ, words."""
    said = in_words(body)
    for letter, spans in _by_letter(body).items():
        counts = [sum(getattr(each, name) for each in spans) for name in ("elements", "different", "elsewhere")]
        yield [str(body.n), str(body.k), letter, ", ".join(map(span, spans)), *map(str, counts), said[letter]]


def _by_letter(body: Body) -> dict[str, list[MRange]]:
    """The ranges of M by the letter of their order."""
    found: dict[str, list[MRange]] = {}
    for each, letter in zip(body.ranges, letters(body), strict=True):
        found.setdefault(letter, []).append(each)
    return found


def _bars(body: Body, place: int, most: int) -> Iterator[Bars]:
    top = (HIGH + GAP) * place + HIGH
    for letter, spans in _by_letter(body).items():
        sides = [(_x(each.first, most), _x(each.last + 1, most)) for each in spans]
        path = "".join(f"M{left:.1f} {top}h{max(2, right - left):.1f}v{HIGH}H{left:.1f}z" for left, right in sides)
        labels = [round(left + 3, 1) for left, right in sides if right - left > LETTER_WIDE]
        shade = SHADES[spans[0].order % len(SHADES)]
        yield Bars(path, shade, letter, labels, f"order {letter}: M {', '.join(map(span, spans))}")


def _x(m: int, most: int) -> float:
    """Where a size of M stands, on a logarithmic scale."""
    return LEFT + WIDE * log2(m) / log2(most + 1)
