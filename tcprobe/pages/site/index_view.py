"""The first page: fragments by arch, identical rows merged; and the lists that lead to every other page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tcprobe.isa import inventory
from tcprobe.isa.arch import arch as arch_row
from tcprobe.pages.site import addresses, words
from tcprobe.pages.site.facts import BADGES, Fact, Facts
from tcprobe.pages.site.render import Part, View

SHOWN = 2  # fragments of a row that are named
Links = list[tuple[str, str]]


def view(facts: Facts, makers: Links) -> View:
    """The page."""
    families = [f for f in inventory.families() if any(fact.fragment.family == f for fact in facts.facts.values())]
    types = sorted({fact.fragment.type for fact in facts.facts.values()})
    shown = {
        "count": len(facts.facts), "families": " and ".join([", ".join(families[:-1]), families[-1]][not families[:-1] :]),
        "archs": facts.archs, "legend": words.legend(), "rows": _rows(facts), "makers": makers,
        "filters": [("family", "Family", families), ("type", "Type", types), ("arch", "Arch", facts.archs)],
        "families_of": [(f, [(f"all of {f}", family(f))]) for f in families],
        "arch_links": [(f"{name}, {arch_row(name).generation}", addresses.arch(name)) for name in facts.archs],
        "layouts": [(id_, addresses.layout(id_)) for id_ in sorted(facts.tables)],
    }  # fmt: skip
    about = "Measured register layouts of NVIDIA tensor-core instructions: a page for every fragment"
    return View("index.html", "index", "Register layouts of tensor-core fragments", about, shown)


def family(name: str) -> str:
    """The page that lists a family's instructions."""
    return f"m/family-{addresses.slug(name)}.html"


def families(facts: Facts) -> list[View]:
    """A page a family: all its instructions."""
    found: dict[str, Links] = {}
    for row in facts.instructions.values():
        found.setdefault(row.family, []).append((row.id, addresses.instruction(row.id)))
    return [
        View(family(name), "list", f"Instructions of {name}", f"All instructions of {name} with measured layouts",
             {"paragraphs": [f"{len(links)} forms."], "parts": [Part(links=links)]})
        for name, links in found.items()
    ]  # fmt: skip


def _rows(facts: Facts) -> list[dict[str, Any]]:
    merged: dict[tuple[object, ...], list[Fact]] = {}
    for fact in facts.facts.values():
        merged.setdefault((fact.fragment.family, *_key(fact, facts.archs)), []).append(fact)
    return [_row(members, facts.archs) for members in merged.values()]


def _key(fact: Fact, archs: list[str]) -> tuple[object, ...]:
    return tuple((fact.kind(name), fact.cells[name].table.id if name in fact.cells else "") for name in archs)


def _row(members: list[Fact], archs: list[str]) -> dict[str, Any]:
    first = members[0]
    shown, more = words.some([fact.id for fact in members], SHOWN)
    return {
        "family": first.fragment.family, "types": " ".join(dict.fromkeys(fact.fragment.type for fact in members)),
        "archs": " ".join(name for name in archs if name in first.cells), "more": more,
        "links": [(id_, addresses.fact(id_)) for id_ in shown], "layout": addresses.layout(first.main.table.id),
        "cells": _cells(first, archs),
    }  # fmt: skip


def _cells(fact: Fact, archs: list[str]) -> list[str]:
    """A letter an arch; layouts other than the main one are numbered from 2 on."""
    numbers: Mapping[str, int] = {id_: number for number, id_ in enumerate(fact.tables, 1)}
    found = []
    for name in archs:
        number = numbers[fact.cells[name].table.id] if name in fact.cells else 1
        found.append(BADGES[fact.kind(name)][0] + (str(number) if number > 1 else ""))
    return found
