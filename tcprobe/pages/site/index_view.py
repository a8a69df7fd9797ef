"""The first page: fragments by arch, identical rows merged; and the lists that lead to every other page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tcprobe.isa import inventory
from tcprobe.isa.arch import WARPGROUP
from tcprobe.isa.arch import arch as arch_row
from tcprobe.isa.instruction import Instruction
from tcprobe.pages.site import addresses, bare_views, number_views, play_view, words
from tcprobe.pages.site.facts import BADGES, Fact, Facts
from tcprobe.pages.site.render import ListPart, View

Links = list[tuple[str, str]]


def view(facts: Facts, makers: Links) -> View:
    """The page."""
    families = [f for f in inventory.families() if any(fact.fragment.family == f for fact in facts.facts.values())]
    types = sorted({fact.fragment.type for fact in facts.facts.values()})
    shown = {
        "counted": facts.counted, "families": ", ".join(map(_said, families)),
        "archs": facts.archs, "legend": words.legend(),
        "rows": _rows(facts), "makers": makers,
        "filters": [("family", "Family", families), ("type", "Type", types), ("arch", "Arch", facts.archs)],
        "arch_links": [(f"{name}, {arch_row(name).generation}", addresses.arch(name)) for name in facts.archs],
        "layouts": [(id_, addresses.layout(id_)) for id_ in sorted(facts.tables)],
    }  # fmt: skip
    there = [("Bank conflicts: a playground", play_view.PAGE)]
    there += [("Tensor memory (documented)", bare_views.PAGE)] if facts.bare or facts.untold else []
    there += [(one.title, one.page) for one in number_views.views(facts)]
    shown["more"] = there
    about = "Measured register layouts of NVIDIA tensor-core instructions: a page for every fragment"
    return View("index.html", "index", "Register layouts of tensor-core fragments", about, shown)


def _said(family: str) -> str:
    """A family, and whether it has many N."""
    row = next(row for row in inventory.instructions().values() if row.family == family)
    return family + (" (every N)" if row.threads == WARPGROUP else "")


def shape_page(family: str, shape: object) -> str:
    """The page that lists the fragments of a family and shape."""
    return f"m/family-{addresses.slug(f'{family} {shape}')}.html"


def shapes(facts: Facts) -> Iterator[View]:
    """A page for each family and shape: its instructions, with their operands."""
    by_shape: dict[tuple[str, str], list[tuple[str, Instruction]]] = {}
    for name, row in facts.instructions.items():
        by_shape.setdefault((row.family, facts.of[row.fragments[-1].id].shape), []).append((name, row))
    for (family, shape), rows in by_shape.items():
        title = f"{family} {shape}"
        lines = [[[(name, addresses.instruction(name))],
                  [(words.name(f), addresses.fact(facts.of[f.id].id)) for f in row.fragments]]
                 for name, row in rows]  # fmt: skip
        part = ListPart(heads=["Instruction", "Operands"], rows=lines)
        about = f"All forms of {title}, and their fragments"
        yield View(
            shape_page(family, shape), "list", title, about, {"paragraphs": [f"{len(rows)} forms."], "parts": [part]}
        )


def _rows(facts: Facts) -> list[dict[str, Any]]:
    merged: dict[tuple[object, ...], list[Fact]] = {}
    for fact in facts.facts.values():
        key = (fact.fragment.family, fact.shape, *_cells(fact, facts.archs))
        merged.setdefault(key, []).append(fact)
    return [_row(members, facts.archs) for members in merged.values()]


def _row(members: list[Fact], archs: list[str]) -> dict[str, Any]:
    first = members[0]
    family, shape = first.fragment.family, first.shape
    operands = dict.fromkeys(words.name(fact.fragment) for fact in members)
    types = dict.fromkeys(fact.fragment.type for fact in members)
    one = len(members) == 1
    return {
        "family": family, "types": " ".join(types), "archs": " ".join(name for name in archs if name in first.cells),
        "name": first.id if one else f"{family} {shape}", "count": len(members), "cells": _cells(first, archs),
        "page": addresses.fact(first.id) if one else shape_page(family, shape),
        "of": "" if one else f"{', '.join(operands)} of {', '.join(types)}",
    }  # fmt: skip


def _cells(fact: Fact, archs: list[str]) -> list[str]:
    """A letter an arch; layouts other than the main one are numbered from 2 on."""
    numbers: Mapping[str, int] = {id_: number for number, id_ in enumerate(fact.tables, 1)}
    badges = []
    for name in archs:
        number = numbers[fact.cells[name].table.id] if name in fact.cells else 1
        badges.append(BADGES[fact.kind(name)][0] + (str(number) if number > 1 else ""))
    return badges
