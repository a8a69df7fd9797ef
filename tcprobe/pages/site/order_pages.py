"""In which order programs sum: where along M the order changes, drawn as bars, and each order in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from math import log2
from typing import NamedTuple

from tcprobe.pages.orders import HEADS, in_words, letters, measured, rows, span, title
from tcprobe.pages.site.facts import Facts
from tcprobe.pages.site.markup import View
from tcprobe.store.kinds.order import Body, words

ORDER_PAGE = "orders.html"
LEFT, WIDE, HIGH, GAP = 130, 560, 20, 6  # of a bar: the text on its left, its length, its height, below it
ABOUT = (
    "Found by calling a program on a GPU and proven on random operands: every bit of D follows from the order. Within "
    "a range of M the order is the same, as far as its sizes were called; where it changes, a row of D has other bits "
    "in a larger or smaller batch: so many of its N elements."
)
LETTER = HEADS.index("order")
SHADES = (0.08, 0.3, 0.18, 0.4)


class Bar(NamedTuple):
    """A range of M as it is drawn."""

    x: float
    width: float
    shade: float
    letter: str
    words: str


class Drawn(NamedTuple):
    """A product as it is drawn: its top, its name, its bars."""

    top: int
    name: str
    bars: Sequence[Bar]


def order_pages(facts: Facts) -> Iterator[View]:
    """One page, where anybody found an order."""
    parts = [part for name in facts.archs for part in _parts(facts, name)]
    if parts:
        shows = {"paragraphs": [ABOUT], "parts": parts, "heads": (*HEADS, "in words")}
        yield View(
            ORDER_PAGE, "orders", "In which order programs sum", "The order of sums of libraries, as found", shows
        )


def _parts(facts: Facts, arch: str) -> Iterator[dict[str, object]]:
    found = measured(facts.layers, arch)
    for number, (head, together) in enumerate(groupby(found, key=lambda finding: title(finding.body))):
        findings = list(together)
        bodies = [finding.body for finding in findings]
        most = max(2, *(body.ranges[-1].last for body in bodies))
        yield {
            "head": f"{arch}: {head}",
            "anchor": f"{arch}-{number}",
            "words": f"{words(findings)}.",
            "drawn": [_drawn(body, place, most) for place, body in enumerate(bodies)],
            "height": (HIGH + GAP) * len(bodies) + HIGH,
            "ticks": [(round(_x(1 << power, most)), 1 << power) for power in range(0, int(log2(most)) + 1, 2)],
            "rows": [[*row, in_words(body)[row[LETTER]]] for body in bodies for row in rows(body)],
        }


def _drawn(body: Body, place: int, most: int) -> Drawn:
    bars = [
        Bar(
            round(_x(each.first, most), 1),
            round(max(2.0, _x(each.last + 1, most) - _x(each.first, most)), 1),
            SHADES[each.order % len(SHADES)],
            letter,
            f"M {span(each)}: order {letter}",
        )
        for each, letter in zip(body.ranges, letters(body), strict=True)
    ]
    return Drawn((HIGH + GAP) * place + HIGH, f"N {body.n}, K {body.k}", bars)


def _x(m: int, most: int) -> float:
    """Where a size of M stands, on a logarithmic scale."""
    return LEFT + WIDE * log2(m) / log2(most + 1)
