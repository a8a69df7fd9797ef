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
from tcprobe.errors import UsageError
from tcprobe.text import comment, quoted

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_NAMESPACE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}(::[A-Za-z_][A-Za-z0-9_]{0,99})*")
_HELPER = re.compile(r"#ifndef (TCPROBE_\w+)\n#define \1\n")


def header(conversions: Sequence[Conversion], namespace: str = "") -> str:
    """The header; UsageError where a conversion has no code, or the namespace is none."""
    if namespace and not _NAMESPACE.fullmatch(namespace):
        raise UsageError(f"{quoted(namespace)} is no namespace.")
    lines = [f"// made by tcprobe {__version__}", "#if defined(__CUDACC__) || defined(__CUDACC_RTC__)"]
    for conversion in conversions:
        lines += _one(conversion, namespace)
    return "\n".join([*lines, "#endif", ""])


def check_name(name: str) -> str:
    """The name of a function; UsageError where it is none."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{quoted(name)} is no name of a function.")
    return name


def _one(conversion: Conversion, namespace: str) -> Iterator[str]:
    tiles = conversion.tiling
    if conversion.code is None:
        raise UsageError(f"no code: {conversion.summary} ({conversion.reason}).")
    scope = re.sub(r"\W+", "_", namespace)
    code = _HELPER.sub(lambda m: f"#ifndef {m[1]}_{scope}\n#define {m[1]}_{scope}\n", conversion.code)
    guard = f"TCPROBE_CONVERT_{hashlib.sha256(f'{namespace} {code}'.encode()).hexdigest()[:12]}"
    yield from ("", f"#ifndef {guard}", f"#define {guard}")
    for count, cell in ((tiles.source_tiles, tiles.source), (tiles.target_tiles, tiles.target)):
        yield comment(f"// {count} x {cell.fragment.id} on {cell.arch}; {cell.evidence}")
    yield comment(f"// {conversion.summary}; a lane: {conversion.words}")
    yield from [f"namespace {namespace} {{"] * bool(namespace)
    yield code
    yield from ["}"] * bool(namespace)
    yield "#endif"
