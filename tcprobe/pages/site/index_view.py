"""The first page: fragments by arch, identical rows merged; and the lists that lead to every other page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tcprobe.isa import inventory
from tcprobe.isa.arch import WARPGROUP
from tcprobe.isa.arch import arch as arch_row
from tcprobe.isa.instruction import Instruction
from tcprobe.layout.grid import blocks
from tcprobe.pages.site import (
    addresses,
    markup,
    number_views,
    payload,
    wgmma_view,
    words,
)
from tcprobe.pages.site.facts import BADGES, Fact, Facts
from tcprobe.pages.site.render import LinkList, ListPart, View
from tcprobe.values import Json

CLASSES = {"-": "n", "?": "u"}  # letters that are no names
MOST_MATRIX = 12_000  # characters
LIVE = "mma.m16n8k16.row.col.f32.f16.f16.f32.a"
EXAMPLES = (
    ("A", "m16n8k16 f16 f32 a"),
    ("B", "m16n8k16 f16 f32 b"),
    ("D", "m16n8k16 f16 f32 d"),
    ("wmma", "wmma m16n16k16 d f32"),
    ("wgmma", "wgmma m64n16k16 f32 f16 d"),
    ("fp8", "m16n8k32 f32 e4m3 a"),
)


def view(facts: Facts, makers: LinkList, beyond: LinkList) -> View:
    """The page; `makers` and `beyond` lead to what is not a table."""
    families = [f for f in inventory.families() if any(fact.fragment.family == f for fact in facts.facts.values())]
    types = sorted({fact.fragment.type for fact in facts.facts.values()})
    context: Json = {
        "counted": facts.count_text,
        "families": ", ".join(map(_family_text, families)),
        "archs": facts.archs,
        "legend": [(CLASSES.get(letter, letter), letter, meaning) for letter, meaning in words.legend()],
        "rows": _rows(facts),
        "makers": makers,
        "filters": [("family", "Family", families), ("type", "Type", types), ("arch", "Arch", facts.archs)],
        "arch_links": [(f"{name}, {arch_row(name).generation}", addresses.arch(name)) for name in facts.archs],
        "layouts": [_layout(facts, id_) for id_ in sorted(facts.tables)],
    }
    context["data"] = markup.data(_live(facts))
    context["live"] = _first(facts)
    there = [("Bank conflicts: a playground", addresses.PLAYGROUND)]
    there += wgmma_view.links(facts)
    there += [("Tensor memory (documented)", addresses.TENSOR_MEMORY)] if facts.bare or facts.without_source else []
    there += beyond
    there += [(number_view.title, number_view.page) for number_view in number_views.views(facts)]
    context["more"] = there
    about = "Measured register layouts of NVIDIA tensor-core instructions: a page for every fragment"
    return View("index.html", "index", "Register layouts of tensor-core fragments", about, context)


def _layout(facts: Facts, id_: str) -> tuple[str, str, str]:
    """(id, page, what has it) of a layout."""
    fact, cell, _ = facts.sharing[id_][0]
    return id_, addresses.layout(id_), words.layout_name(cell.fragment, "" if fact.grows else fact.shape)


def _first(facts: Facts) -> Json:
    """The matrix of the first page, as it stands there without the script."""
    fact = facts.facts.get(LIVE) or next(iter(facts.facts.values()))
    block = blocks(fact.each[0].table, fact.each[0].fragment)[0]
    matrix = markup.matrix(block, most=MOST_MATRIX).markup
    return {
        "id": fact.id,
        "page": addresses.fact(fact.id),
        "arch": fact.main.arch,
        "formula": words.formula(fact.main.table),
        "matrix": matrix,
    }


def _live(facts: Facts) -> Json:
    """What the matrix of the first page begins with, and what else a click shows."""
    fact = facts.facts.get(LIVE) or next(iter(facts.facts.values()))
    first = {
        "id": fact.id,
        "arch": fact.main.arch,
        "bits": fact.fragment.slot_bits,
        "layout": payload.with_formula(fact.main.table),
    }
    return {"kind": "home", "first": first, "archs": facts.archs, "examples": EXAMPLES}


def _family_text(family: str) -> str:
    """A family, and whether it has many N."""
    row = next(row for row in inventory.instructions().values() if row.family == family)
    return family + (" (every N)" if row.threads == WARPGROUP else "")


def shape_page(family: str, shape: str) -> str:
    """The page that lists the fragments of a family and shape."""
    return f"m/family-{addresses.slug(f'{family} {shape}')}.html"


def shapes(facts: Facts) -> Iterator[View]:
    """A page for each family and shape: its instructions, with their operands."""
    by_shape: dict[tuple[str, str], list[tuple[str, Instruction]]] = {}
    for name, row in facts.instructions.items():
        by_shape.setdefault((row.family, facts.by_fragment[row.fragments[-1].id].shape), []).append((name, row))
    for (family, shape), rows in by_shape.items():
        title = f"{family} {shape}"
        lines = [
            [
                [(name, addresses.instruction(name))],
                [(words.name(f), addresses.fact(facts.by_fragment[f.id].id)) for f in row.fragments],
            ]
            for name, row in rows
        ]
        part = ListPart(heads=["Instruction", "Operands"], rows=lines)
        about = f"All forms of {title}, and their fragments"
        yield View(
            shape_page(family, shape), "list", title, about, {"paragraphs": [f"{len(rows)} forms."], "parts": [part]}
        )


def _rows(facts: Facts) -> list[Json]:
    merged: dict[tuple[object, ...], list[Fact]] = {}
    for fact in facts.facts.values():
        key = (fact.fragment.family, fact.shape, *_cells(facts, fact))
        merged.setdefault(key, []).append(fact)
    return [_row(facts, members) for members in merged.values()]


def _row(facts: Facts, members: list[Fact]) -> Json:
    first, archs = members[0], facts.archs
    family, shape = first.fragment.family, first.shape
    operands = dict.fromkeys(words.name(fact.fragment) for fact in members)
    types = dict.fromkeys(fact.fragment.type for fact in members)
    single = len(members) == 1
    return {
        "family": family,
        "types": " ".join(types),
        "archs": " ".join(name.removeprefix("sm_") for name in archs if name in first.cells),
        "name": first.id if single else f"{family} {shape}",
        "count": len(members),
        "cells": [(CLASSES.get(text[0], text[0]), text) for text in _cells(facts, first)],
        "page": addresses.fact(first.id) if single else shape_page(family, shape),
        "of": "" if single else f"{', '.join(operands)} of {', '.join(types)}",
    }


def _cells(facts: Facts, fact: Fact) -> list[str]:
    """A letter an arch; layouts other than the main one are numbered from 2 on, multiplies that are emulated marked."""
    numbers: Mapping[str, int] = {id_: number for number, id_ in enumerate(fact.tables, 1)}
    badges = []
    for name in facts.archs:
        number = numbers[fact.cells[name].table.id] if name in fact.cells else 1
        emulated = "e" if name in fact.cells and facts.emulation(fact.fragment, name) else ""
        badges.append(BADGES[fact.kind(name)][0] + (str(number) if number > 1 else "") + emulated)
    return badges
