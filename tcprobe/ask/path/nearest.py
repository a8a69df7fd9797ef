"""What exists near a path that does not: one option changed, or two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations, product

from tcprobe.ask.path.request import FILLS, PathRequest
from tcprobe.ask.tile import Shared, box_placement
from tcprobe.errors import answer_or_none
from tcprobe.isa.tensor_map import SPANS

OptionChange = tuple[str, dict[str, object]]  # as an option, and as a change of the request
MOST = 3


def nearest(request: PathRequest, exists: Callable[[PathRequest], bool]) -> list[list[str]]:
    """Up to MOST ways to change one option, else one way to change two, each with what exists then."""
    kinds = [list(kind(request)) for kind in (_accesses, _places, _leadings, _fills, _majors)]
    ways = [[first] for kind in kinds if (first := next((w for w, c in kind if _holds(request, c, exists)), None))]
    if ways:
        return ways[:MOST]
    for kind, other_kind in combinations(kinds, 2):
        for (first, a), (second, b) in product(kind, other_kind):
            if _holds(request, a | b, exists):
                return [[first, second]]
    return []


def hint(near: list[str]) -> str:
    """What exists near, as a sentence."""
    return f"Nearest that exists: {', or '.join(near)}." if near else "No change of one or two options gives a path."


def _holds(request: PathRequest, changes: dict[str, object], exists: Callable[[PathRequest], bool]) -> bool:
    changed = answer_or_none(lambda: request.having(**changes))  # type: ignore[arg-type]
    return changed is not None and exists(changed)


def _accesses(request: PathRequest) -> Iterator[OptionChange]:
    """Other instructions of the same direction: with or without .trans first, then fewer matrices, then lanes."""
    from tcprobe.ask.path import LOADS, STORES, WIDENING

    name = request.access.row.name
    options = WIDENING if request.widens else LOADS if request.loads else STORES
    turned = name.removesuffix(".trans") if name.endswith(".trans") else f"{name}.trans"
    for other in (turned, *options):
        if other in options and other != name:
            yield f"`access` {other}", {"access": other}


def _places(request: PathRequest) -> Iterator[OptionChange]:
    """The next padding that keeps 16 bytes whole, the same swizzle of whole 16 bytes, TMA's modes, plain."""
    if request.shared.padding:
        whole = -(-request.shared.padding // 16) * 16
        yield f"`placed` pad:{whole}", {"shared": Shared(whole)}
    b, m, s = request.shared.swizzle
    if b and m < 4:
        yield f"`placed` sw:{b},4,{s}", {"shared": Shared(swizzle=(b, 4, s))}
    for span in sorted(SPANS.values(), key=lambda span: (span > request.tile.line_bytes, -span)):
        yield f"`placed` SWIZZLE_{span}B", {"shared": box_placement(span)}
    yield "`placed` plain", {"shared": Shared()}


def _leadings(request: PathRequest) -> Iterator[OptionChange]:
    """The next leading dimensions of whole 4 and 16 bytes."""
    for width in (4, 16):
        unit = max(1, 8 * width // request.tile.bits)
        ld = -(-request.ld // unit) * unit
        if ld != request.ld:
            yield f"`ld` {ld}", {"ld": ld}


def _fills(request: PathRequest) -> Iterator[OptionChange]:
    for fill in FILLS:
        if fill != request.fill:
            yield f"`fill` {fill}", {"fill": fill}


def _majors(request: PathRequest) -> Iterator[OptionChange]:
    """The same matrix stored the other way, without gaps between lines."""
    other = "col" if request.tile.contiguous == "row" else "row"
    if tile := answer_or_none(lambda: replace(request.tile, contiguous=other)):
        yield f"`contiguous` {other}", {"tile": tile, "ld": tile.length}
