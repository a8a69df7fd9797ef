"""Conversions as a header of its own: what each is, in which namespace, and helpers that are there once.

Two such headers may be included together, also where they share helpers or a whole conversion. A compiler that knows no
device code (g++) sees nothing in them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence

from tcprobe import __version__
from tcprobe.ask.convert import Conversion
from tcprobe.code.cuda import origin
from tcprobe.code.names import guard_in
from tcprobe.errors import UsageError
from tcprobe.text import comment, quoted

_HEAD = re.compile(r"^__device__ inline void (.*) {$", re.MULTILINE)


def header(conversions: Sequence[Conversion], namespace: str = "") -> str:
    """The header; UsageError where a conversion has no code, or the namespace is not a legal name."""
    _check_apart(conversions)
    lines = [f"// made by tcprobe {__version__}", "#if defined(__CUDACC__) || defined(__CUDACC_RTC__)"]
    for conversion in conversions:
        lines += _section(conversion, namespace)
    return "\n".join([*lines, "#endif", ""])


def _check_apart(conversions: Sequence[Conversion]) -> None:
    """UsageError where two functions have the same head and do different things."""
    by_head: dict[str, str | None] = {}
    for conversion in conversions:
        for head in _HEAD.findall(conversion.code or ""):
            if by_head.setdefault(head, conversion.code) != conversion.code:
                raise UsageError(f"two functions have the signature {quoted(head)}.", "function names")


def _section(conversion: Conversion, namespace: str) -> Iterator[str]:
    tiles = conversion.tiling
    if conversion.code is None:
        raise UsageError(f"no code: {conversion.summary} ({conversion.reason}).")
    code = guard_in(conversion.code, namespace) if namespace else conversion.code
    guard = f"TCPROBE_CONVERT_{hashlib.sha256(f'{namespace} {code}'.encode()).hexdigest()[:12]}"
    yield from ("", f"#ifndef {guard}", f"#define {guard}")
    ends = (("from", tiles.source_tiles, tiles.source), ("to", tiles.target_tiles, tiles.target))
    for name, count, cell in ends:
        yield comment(f"// {name}: {count} x {cell.fragment.id}, {origin(cell)}")
    yield comment(f"// {conversion.summary}; per lane: {conversion.words}")
    yield from [f"namespace {namespace} {{"] * bool(namespace)
    yield code
    yield from ["}"] * bool(namespace)
    yield "#endif"
