"""Layouts in the terms of other programs, one module for each format.

    question                                      the command
    common, and read.h, metadata.h, header.h      what formats share
    csv, json, markdown, latex, svg, svg_cute,
    svg_ptx                                       to read and to draw
    cuda, ptx, python, numpy, sympy, numba        code
    cute, cute_dsl, tensor_layouts, triton,
    tinygrad, tilelang, mosaic                    frameworks

A format is a module of this package with WHAT (one line for the help) and `emit(tables) -> str`. It may set ARCHS:
"all" if it distinguishes archs itself and wants every one, "any" if tables of several archs may be side by side; other
formats take one arch. It may set ROLES, the roles of operands besides matrices that it can express, and SELECTORS "all"
if it writes the tables of all selectors of metadata side by side; other formats take one selector. A format refuses
what it cannot express with a UsageError that says why. The same tables always give the same text.

>>> from tcprobe import emit
>>> from tcprobe.store.cell import load
>>> print(emit.emit("csv", [load("mma.m8n8k16.row.col.s32.s8.s8.s32.d")]).splitlines()[:2])
['lane,i,row,col', '0,0,0,0']
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import MappingProxyType
from typing import Protocol

from tcprobe import plugins
from tcprobe.code.names import identifier
from tcprobe.errors import RowError, UsageError
from tcprobe.isa.operand import WHOLE
from tcprobe.store.cell import Cell, selected


class Format(Protocol):
    """The names that a format's module has."""

    WHAT: str

    def emit(self, cells: Sequence[Cell]) -> str:
        """The text; UsageError if the format cannot express a table."""


@cache
def names() -> tuple[str, ...]:
    """Names of all formats: those of their files, with - for _."""
    modules = plugins.module_names(__name__, apart=("common", "question"))
    return tuple(name.replace("_", "-") for name in modules)


@cache
def formats() -> MappingProxyType[str, Format]:
    """All formats by name."""
    return MappingProxyType({name: _module(name) for name in names()})


def emit(name: str, cells: Sequence[Cell]) -> str:
    """The text of `cells` in format `name`; UsageError if the format is unknown or cannot express them."""
    if name not in names():
        raise UsageError(f"unknown format {name!r}; known: {', '.join(names())}.")
    if not cells:
        raise UsageError("no fragment to emit.")
    cells = selected(cells, None, every=for_all_selectors(name))
    spoken = (*WHOLE, *getattr(_module(name), "ROLES", ()))
    silent = next((cell.fragment for cell in cells if cell.fragment.role not in spoken), None)
    if silent:
        others = dict.fromkeys(cell.fragment.id for cell in cells if cell.fragment.role in spoken)
        instead = f"; of these it can write: {', '.join(others)}" if others else ""
        raise UsageError(f"{name} cannot express the {silent.role.value} {silent.id}{instead}.")
    archs = dict.fromkeys(cell.arch for cell in cells)
    if len(archs) > 1 and not _archs(name):
        raise UsageError(f"{name} takes one arch, not {', '.join(archs)}: choose with `arch`, or use cuda.")
    text = _module(name).emit(cells).rstrip("\n") + "\n"
    named: dict[str, str] = {}
    for id_ in dict.fromkeys(cell.fragment.id for cell in cells):
        if (other := named.setdefault(identifier(id_), id_)) != id_ and identifier(id_) in text:
            raise UsageError(f"{other} and {id_} would both be called {identifier(id_)}: emit one at a time.")
    return text


def for_all_archs(name: str) -> bool:
    """Whether the format distinguishes archs itself."""
    return _archs(name) == "all"


def for_all_selectors(name: str) -> bool:
    """Whether the format writes the tables of all selectors of metadata side by side."""
    selectors: str = getattr(_module(name), "SELECTORS", "")
    if selectors not in ("", "all"):
        raise RowError(f"{__name__}.{name}: SELECTORS is {selectors!r}, not all.")
    return selectors == "all"


def _archs(name: str) -> str:
    archs: str = getattr(_module(name), "ARCHS", "")
    if archs not in ("", "any", "all"):
        raise RowError(f"{__name__}.{name}: ARCHS is {archs!r}, which is neither any nor all.")
    return archs


def _module(name: str) -> Format:
    module: Format = plugins.load(__name__, name.replace("-", "_"), ("WHAT", "emit"))
    return module
