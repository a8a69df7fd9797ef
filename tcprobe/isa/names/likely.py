"""What people mean by words that fit several things: first.csv, in the order of use, and nothing else, decides.

>>> said = []
>>> groups = (["mma.m16n8k16.row.col.f16.f16.f16.f16.c"], ["mma.m16n8k16.row.col.f32.f16.f16.f32.c"])
>>> with answering(said.append):
...     likeliest("m16n8k16 c", groups)
'mma.m16n8k16.row.col.f32.f16.f16.f32.c'
>>> said
['read as mma.m16n8k16.row.col.f32.f16.f16.f32.c (also f16: say so)']
>>> likeliest("m16n8k16 c", groups) is None  # nobody listens: a reading is never silent
True

A line is a form by parts of its id, in their order: of its family, type, and shape where one is used most. A form that
no line has is never chosen, nor one of several that the same line has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import NamedTuple

from tcprobe import facts
from tcprobe.isa.names.words import APART, OPERANDS, read

_LISTENER: ContextVar[Callable[[str], None] | None] = ContextVar("_LISTENER", default=None)
MOST_OTHERS = 4  # readings that are named beside the one that is taken


class First(NamedTuple):
    """A line of first.csv: a form that people use, by the parts of its id that tell it."""

    family: str
    type: str
    parts: str


@contextmanager
def answering(listener: Callable[[str], None] | None) -> Iterator[None]:
    """Take what people mean where words fit several things, and say it to the listener; refuse them without one."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def say(reading: str, others: Iterable[str] = ()) -> bool:
    """Say what something was read as, and what else it could be; whether anybody listens, so that it may be."""
    listener = _LISTENER.get()
    if listener is None:
        return False
    also = list(dict.fromkeys(others))
    more = ", ..." if len(also) > MOST_OTHERS else ""
    listener(f"read as {reading}" + (f" (also {', '.join(also[:MOST_OTHERS])}{more}: say so)" if also else ""))
    return True


def likeliest(name: str, groups: Sequence[Sequence[str]]) -> str | None:
    """Of ids in groups with different answers the one that people mean by a name, which is said; None where none is
    used more than the others, or nobody listens.

    A name of an operand alone says too little.
    """
    if _LISTENER.get() is None or not groups or set(read(name).plain) <= OPERANDS:
        return None
    best = sorted((min((_rank(id_), id_) for id_ in ids), at) for at, ids in enumerate(groups))
    (rank, chosen), _ = best[0]
    if rank == _UNUSED or (len(best) > 1 and best[1][0][0] == rank):
        return None
    others = [_apart(chosen, id_) for (_, id_), _ in best[1:]]
    return chosen if say(chosen, filter(None, others)) else None


@cache
def types() -> Sequence[str]:
    """The types of first.csv, in the order of use."""
    return list(dict.fromkeys(line.type for line in facts.read(__file__, "first.csv", First)))


@cache
def _lines() -> Sequence[Sequence[str]]:
    return [[line.family, *line.parts.split()] for line in facts.read(__file__, "first.csv", First)]


_UNUSED = (10**6, 0)


@cache
def _rank(id_: str) -> tuple[int, int]:
    """The first line that has a form, then how much more than the line its id says."""
    parts = id_.lower().replace("mma_async", "").split(".")
    scaled = "block_scale" in parts  # is another form, whatever its types
    lines = (
        at
        for at, line in enumerate(_lines())
        if line[0] == parts[0] and ("block_scale" in line) == scaled and _in_order(line, parts)
    )
    first = next(lines, None)
    special = sum(part in APART for part in parts[1:])
    return _UNUSED if first is None else (first, 100 * special + len(parts))


def _in_order(wanted: Sequence[str], parts: Iterable[str]) -> bool:
    left = iter(parts)
    return all(part in left for part in wanted)


def _apart(chosen: str, other: str) -> str:
    """What the other says that the chosen one does not: the first part of it."""
    more = Counter(other.lower().split(".")) - Counter(chosen.lower().split("."))
    return next((part for part in other.split(".") if part.lower() in more), "")
