"""All files of the site, by address, made in memory: nothing is written here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files

from tcprobe.emit import svg
from tcprobe.pages.site import (
    addresses,
    data_files,
    diff_view,
    fact_view,
    guide_views,
    index_view,
    instruction_view,
    layout_view,
    list_views,
    shared_views,
)  # fmt: skip
from tcprobe.pages.site.facts import Facts
from tcprobe.pages.site.render import View, render
from tcprobe.store.cell import Cell

# strings stay as they are; blanks around other marks go
_TOKEN = re.compile(r"""(?P<kept>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')| *(?P<mark>[=:}()\[\]?<>|&*+]|[,;{]\n?) *""")
RENAMED: dict[str, str] = {}  # address of a page that was renamed: where it is now
STATIC = ("site.css", "site.js", "icon.svg")


def build(facts: Facts) -> dict[str, str]:
    """Text by address."""
    found = {view.page: render(view) for view in views(facts)}
    return found | dict(_others(facts))


def views(facts: Facts) -> Iterator[View]:
    """Every page."""
    made, links = list_views.makers(facts)
    yield index_view.view(facts, links)
    yield from made
    yield from index_view.shapes(facts)
    yield from (fact_view.view(fact) for fact in facts.facts.values())
    yield from (instruction_view.view(facts, row) for row in facts.instructions.values())
    yield from (layout_view.view(facts, id_) for id_ in facts.tables)
    yield from (list_views.arch(facts, name) for name in facts.archs)
    yield from shared_views.views(facts)
    yield from guide_views.views(facts)
    yield diff_view.view(facts)
    yield list_views.errata(facts)
    yield from (moved(old, new) for old, new in RENAMED.items())


def moved(old: str, new: str) -> View:
    """The stub that a renamed page leaves."""
    return View(old, "moved", "Moved", f"This page is now {new}", {"to": new})


def _others(facts: Facts) -> Iterator[tuple[str, str]]:
    yield from ((name, asset(name)) for name in STATIC)
    yield "search.js", data_files.names(facts)
    yield "json/all.json", data_files.everything(facts)
    yield "json/schema.json", data_files.schema()
    for fact in facts.facts.values():
        yield addresses.data(fact.id), data_files.fragment(fact)
    for address, cell in pictures(facts).items():
        yield address, svg.picture(cell)


def pictures(facts: Facts) -> dict[str, Cell]:
    """A cell for each picture: a layout in elements of some width is drawn once."""
    cells = (cell for fact in facts.facts.values() for cell in fact.cells.values())
    return {address: cell for cell in cells if (address := fact_view.picture(cell))}


def asset(name: str) -> str:
    """A file that is the same for every site, as it is published: without comments, indentation and spare blanks."""
    text = (files("tcprobe.pages.site") / "static" / name).read_text("utf-8")
    lines = re.sub(r"^(?: +|\s*//.*\n|\n)", "", text, flags=re.MULTILINE)
    return _TOKEN.sub(lambda found: found["kept"] or found["mark"].rstrip(), lines) if name.endswith(".js") else lines
