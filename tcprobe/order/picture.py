"""An order in words and drawn: its sums as a tree of lines, alike ones together, and where along k their products are.

A line stands for a node, or for several that follow one another and are alike: the same sums of as many products. The
same lines are drawn in a terminal and as SVG.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tcprobe.arithmetic.floats import FORMATS
from tcprobe.arithmetic.order import (
    Additions,
    FusedMultiplyAdds,
    Multiplies,
    Node,
    Order,
    children,
    count,
    instruction,
    postorder,
    products,
)
from tcprobe.text import Whole

MOST_LINES, MOST_COLUMNS = 20, 80  # in a terminal
MOST_KINDS = 6  # of chains, in words
MOST_DRAWN = 60  # lines of an SVG
MOST_PARTS = 400  # marks of one line of an SVG
INPUT_WORDS = {
    "exact": "A and B are multiplied as they are",
    "nearest even": "A and B are rounded to tf32 first, to nearest even",
    "nearest away": "A and B are rounded to tf32 first, to nearest, halves away from zero",
    "cut": "A and B are cut to tf32 first",
}
WIDTH, LINE, TEXT, MARGIN = 940, 22, 490, 12  # of an SVG: whole, a line, the text on its left, around it
COLORS = ("#2b6cb0", "#2f855a", "#b7791f")  # multiplies, multiply-adds, additions


class Line(NamedTuple):
    """A node, or `times` alike, and their products; `is_c`: it is the C of the line above it."""

    depth: tuple[bool, ...]  # for each level above, whether more stands below there
    times: int
    node: Node
    spans: tuple[range, ...]
    is_c: bool


def lines(order: Order, most: int) -> tuple[list[Line], int]:
    """The first lines of the tree, and how many nodes stand on none of them."""
    shapes, sizes = _shapes(order.sum)
    made: list[Line] = []
    left = 0
    waiting: list[tuple[tuple[bool, ...], tuple[Node, ...], bool]] = [((), (order.sum,), False)]
    while waiting:
        depth, alike, is_c = waiting.pop()
        if len(made) == most:
            left += sum(sizes[id(node)] for node in alike)
            continue
        spans = tuple(part for node in alike for part in products(node))
        made.append(Line(depth, len(alike), alike[0], spans, is_c))
        runs = list(_runs(children(alike[0]), shapes))
        inner = [
            ((*depth, place < len(runs) - 1), run, not isinstance(alike[0], Additions))
            for place, run in enumerate(runs)
        ]
        waiting.extend(reversed(inner))
    return made, left


def _shapes(root: Node) -> tuple[dict[int, int], dict[int, int]]:
    """A number for each node, the same for nodes that are alike; and how many nodes each is."""
    known: dict[object, int] = {}
    shapes: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for node in postorder(root):
        inner = tuple(shapes[id(child)] for child in children(node))
        what: object = ("add",) if isinstance(node, Additions) else (_name(node), count(node.ranges))
        shapes[id(node)] = known.setdefault((what, inner), len(known))
        sizes[id(node)] = 1 + sum(sizes[id(child)] for child in children(node))
    return shapes, sizes


def _name(node: Node) -> str:
    return node.form if isinstance(node, Multiplies) else node.result


def _runs(nodes: Sequence[Node], shapes: dict[int, int]) -> Iterator[tuple[Node, ...]]:
    """Neighbours that are alike."""
    at = 0
    while at < len(nodes):
        end = at + 1
        while end < len(nodes) and shapes[id(nodes[end])] == shapes[id(nodes[at])]:
            end += 1
        yield tuple(nodes[at:end])
        at = end


def label(line: Line, places: bool = True) -> str:
    """What a line says of its node; also of which products, unless these are drawn."""
    node = line.node
    start = ("C: " if line.is_c else "") + (f"{line.times} x " if line.times > 1 else "")
    if isinstance(node, Additions):
        terms = len(node.terms)
        return f"{start}{terms} sums added in {node.result}, from left to right" if terms > 1 else f"{start}1 sum"
    steps = _steps(node)
    what = f"multiply-add{'s' * (steps > 1)} in {node.type}" if isinstance(node, FusedMultiplyAdds) else node.form
    number = f"{steps} " if steps > 1 or isinstance(node, FusedMultiplyAdds) else ""
    return f"{start}{number}{what}{f', k {_spans(line.spans)}' if places else ''}"


def _steps(node: Multiplies | FusedMultiplyAdds) -> int:
    """How many instructions a chain has."""
    return -(-count(node.ranges) // (instruction(node.form).shape.k if isinstance(node, Multiplies) else 1))


def _spans(parts: Sequence[range]) -> str:
    """Products in words; of many ranges the first and the last."""
    shown = [_span(part) for part in parts] if len(parts) <= 3 else [_span(parts[0]), "...", _span(parts[-1])]
    return ", ".join(shown)


def _span(part: range) -> str:
    if len(part) == 1:
        return str(part[0])
    return f"{part[0]}-{part[-1]}{f' by {part.step}' if part.step > 1 else ''}"


def tree_lines(order: Order) -> Iterator[Whole]:
    """The tree in at most MOST_LINES lines."""
    made, left = lines(order, MOST_LINES)
    if left:
        made, left = lines(order, MOST_LINES - 1)
    for line in made:
        bars = "".join("│  " if more else "   " for more in line.depth[:-1])
        corner = ("├─ " if line.depth[-1] else "└─ ") if line.depth else ""
        yield Whole(_short(f"{bars}{corner}{label(line)}", MOST_COLUMNS))
    if left:
        yield Whole(f"... and {left} more sums")


def in_words(order: Order) -> Iterator[str]:
    """What is multiplied and added how, a line each."""
    a, b, d = order.types
    yield f"{order.k} products of {a if a == b else f'{a} and {b}'} on {order.arch}, D in {d}"
    chains: Counter[tuple[str, int, int]] = Counter()
    added = 0
    for node in postorder(order.sum):
        if isinstance(node, Additions):
            added += len(node.terms) - 1
        else:
            what = f"multiply-adds in {node.type}" if isinstance(node, FusedMultiplyAdds) else node.form
            chains[what, _steps(node), count(node.ranges)] += 1
    for (what, steps, number), times in list(chains.items())[:MOST_KINDS]:
        chain = f"{times} chain{'s' * (times > 1)} of {steps} {what}"
        yield f"{chain}: {number} product{'s' * (number > 1)}{' each' * (times > 1)}"
    if len(chains) > MOST_KINDS:
        yield f"and {len(chains) - MOST_KINDS} kinds of chains more"
    for form in dict.fromkeys(node.form for node in postorder(order.sum) if isinstance(node, Multiplies)):
        yield f"{form} sums {instruction(form).shape.k} products at a time"
    if added:
        yield f"{added} addition{'s' * (added > 1)} in {order.sum.result} join{'s' * (added == 1)} the sums"
    yield INPUT_WORDS[order.inputs]
    narrow = d in FORMATS and order.sum.result in FORMATS and FORMATS[d].fraction < FORMATS[order.sum.result].fraction
    yield f"D is rounded once more to {d}, to nearest even" if narrow else "D is the sum as it is"


def summary(order: Order) -> str:
    """An order in one line: the last sum, and of what it is made."""
    top, *inner = lines(order, 4)[0]
    ways = "; ".join(label(line, places=False) for line in inner if len(line.depth) == 1)
    inputs = "" if order.inputs == "exact" else f"; {INPUT_WORDS[order.inputs]}"
    return f"{label(top, places=False)}{f': {ways}' if ways else ''}{inputs}"


def svg(order: Order, title: str = "") -> str:
    """The tree on the left, and on the right where along k each line has its products."""
    from html import escape

    made, left = lines(order, MOST_DRAWN)
    height = 2 * MARGIN + LINE * (len(made) + 2 + bool(left))
    width = WIDTH - TEXT - 2 * MARGIN
    name = escape(title or f"{order.k} products on {order.arch}")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" font-family="monospace" font-size="11">',
        f"<title>{name}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{MARGIN}" y="{MARGIN + 12}" font-weight="bold">{name}</text>',
    ]
    for at, line in enumerate(made):
        top = MARGIN + LINE * (at + 1)
        x = MARGIN + 12 * len(line.depth)
        if line.depth:
            parts.append(f'<path d="M{x - 8} {top}v{LINE // 2}h6" stroke="#718096" fill="none"/>')
        words = escape(_short(label(line, places=False), (TEXT - x) // 7))
        parts.append(f'<text x="{x}" y="{top + 15}" fill="#1a202c">{words}</text>')
        kind = 2 if isinstance(line.node, Additions) else 1 if isinstance(line.node, FusedMultiplyAdds) else 0
        parts.extend(_bars(line.spans, order.k, top, width, COLORS[kind]))
    bottom = MARGIN + LINE * (len(made) + 1)
    if left:
        parts.append(f'<text x="{MARGIN}" y="{bottom + 15}" fill="#1a202c">... and {left} more sums</text>')
        bottom += LINE
    axis = f'y="{bottom + 15}" fill="#4a5568"'
    parts.append(f'<text x="{TEXT + MARGIN}" {axis}>k 0</text>')
    parts.append(f'<text x="{WIDTH - MARGIN}" {axis} text-anchor="end">{order.k}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _bars(spans: Sequence[range], k: int, top: int, width: int, color: str) -> Iterator[str]:
    """A mark for each range; a range with a step is paler, as thin as its products are far apart."""
    step = -(-len(spans) // MOST_PARTS)
    for part in spans[::step]:
        x, wide = TEXT + MARGIN + width * part[0] / k, max(0.5, width * (part[-1] + 1 - part[0]) / k)
        pale = f' fill-opacity="{max(0.15, 1 / part.step):.2f}"' if part.step > 1 and len(part) > 1 else ""
        place = f'x="{x:.1f}" y="{top + 4}" width="{wide:.1f}" height="{LINE - 8}"'
        yield f'<rect {place} fill="{color}"{pale} stroke="#ffffff" stroke-width="0.5"/>'
