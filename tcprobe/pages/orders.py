"""In which order programs sum: a page of the findings, and where along M the order of a product changes, drawn.

A product is a line of letters over M, from 1 to the largest that was called, on a logarithmic scale: the same letter is
the same order, a point a size that nobody called.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from math import ceil, log2

from tcprobe.order.picture import summary
from tcprobe.pages.tables import page
from tcprobe.store.choose import Layers, alone
from tcprobe.store.finding import Finding
from tcprobe.store.kinds.order import Body, MRange, orders, words
from tcprobe.store.results import Results

KIND = "order"
EACH = 4  # letters for a factor of two of M
HEADS = ("N", "K", "M", "order", "different", "elsewhere", "of a row changed")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def has_orders(results: Results) -> bool:
    """Whether there is anything to show."""
    layers = alone(results)
    return any(measured(layers, name) for name in results.archs())


def measured(layers: Layers, arch: str) -> list[Finding]:
    """The findings of an arch: by program, library and types, then N and K."""
    found = [sourced.finding for sourced in layers.findings(KIND, arch).values()]
    return sorted(found, key=lambda finding: (title(finding.body), finding.body.n, finding.body.k))


def title(body: Body) -> str:
    """What the products of a part have in common."""
    a, b, d = body.types
    lying = "" if (body.a, body.b) == ("row", "row") else f", A {body.a}-major, B {body.b}-major"
    aligned = f", aligned to {body.alignment} bytes"
    return f"{body.call}: {a} x {b} into {d}, {body.library}, {body.multiprocessors} multiprocessors{lying}{aligned}"


def letters(body: Body) -> list[str]:
    """A letter for each range of M: those of an order are alike."""
    return [LETTERS[each.order % len(LETTERS)] for each in body.ranges]


def strip(body: Body, most: int) -> str:
    """The line of a product: a letter for each step of M up to `most`."""
    return "".join(_letter_at(body, round(2 ** (step / EACH))) for step in range(ceil(log2(most) * EACH) + 1))


def _letter_at(body: Body, m: int) -> str:
    named = zip(body.ranges, letters(body), strict=True)
    return next((letter for each, letter in named if each.first <= m <= each.last), ".")


def scale(most: int) -> str:
    """Sizes of M above the letters, each where its letter stands."""
    text = ""
    for power in range(0, int(log2(most)) + 1, 2):
        text = text.ljust(power * EACH) + str(1 << power)
    return text


def orders_page(results: Results) -> list[str]:
    """A section an arch, a part a program, library and types."""
    layers = alone(results)
    found = [(name, measured(layers, name)) for name in results.archs()]
    return page(
        "orders.md", HEADS=HEADS, archs=[(name, words(every), list(parts(every))) for name, every in found if every]
    )


def parts(found: Sequence[Finding]) -> Iterator[tuple[str, list[str], list[str], list[list[str]]]]:
    """(title, lines of letters, orders in words, rows of the table) of the products that have a title in common."""
    for head, together in groupby(found, key=lambda finding: title(finding.body)):
        bodies = [finding.body for finding in together]
        most = max(body.ranges[-1].last for body in bodies)
        sizes = [f"N {body.n}, K {body.k}" for body in bodies]
        wide = max(map(len, sizes))
        drawn = [f"{size.rjust(wide)}  {strip(body, most)}" for size, body in zip(sizes, bodies, strict=True)]
        said = [
            f"{size}, {letter}: {words}"
            for size, body in zip(sizes, bodies, strict=True)
            for letter, words in in_words(body).items()
        ]
        yield head, [f"{'M'.rjust(wide)}  {scale(most)}", *drawn], said, [row for body in bodies for row in rows(body)]


def rows(body: Body) -> Iterator[list[str]]:
    """A row for each range of M."""
    for each, letter in zip(body.ranges, letters(body), strict=True):
        changed = "" if each.changed is None else f"{each.changed} of {body.n}"
        different = f"{each.different} of {each.elements}"
        yield [str(body.n), str(body.k), span(each), letter, different, str(each.elsewhere), changed]


def in_words(body: Body) -> dict[str, str]:
    """The orders by letter."""
    said = list(map(summary, orders(body)))
    return {letter: said[each.order] for each, letter in zip(body.ranges, letters(body), strict=True)}


def span(each: MRange) -> str:
    """A range of M in words."""
    return str(each.first) if each.first == each.last else f"{each.first} to {each.last}"
