"""All files of the site, by address, made in memory: nothing is written here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.resources import files

from tcprobe.emit import svg
from tcprobe.isa import inventory
from tcprobe.pages.site import (
    addresses,
    bare_views,
    compare_view,
    data_files,
    diff_view,
    fact_view,
    guide_views,
    index_view,
    instruction_view,
    kernels,
    layout_view,
    list_views,
    number_views,
    package_views,
    path_views,
    play_view,
    recipe_views,
    search_table,
    shared_views,
    thumbnails,
    wgmma_view,
)
from tcprobe.pages.site.facts import Facts, for_every_n
from tcprobe.pages.site.pictures import picture
from tcprobe.pages.site.render import View, render
from tcprobe.store.cell import Cell
from tcprobe.system.beside import beside

RENAMED: dict[str, str] = {}  # address of a page that was renamed: where it is now
STATIC = (
    "site.css",
    "icon.svg",
    "site.js",
    "maps.js",
    "grid.js",
    "fact.js",
    "instruction.js",
    "diff.js",
    "compare.js",
    "diagnose.js",
    "explore.js",
    "picture.js",
    "layout.js",
    "lists.js",
    "banks.js",
    "find.js",
    "home.js",
    "way.js",
    "wgmma.js",
)


def build(facts: Facts) -> dict[str, str]:
    """Text by address; a second process makes the pages of fragments and layouts and the data, where it can."""
    fragments = beside(lambda: {**_render(fragment_views(facts)), **dict(_others(facts))})
    written = _render(other_views(facts))
    return {**fragments(), **written, **dict(search_table.files(facts, written))}


def _render(some_views: Iterable[View]) -> dict[str, str]:
    return {view.page: render(view) for view in some_views}


def fragment_views(facts: Facts) -> Iterator[View]:
    """The pages of fragments, those that have moved among them, and of layouts."""
    yield from (fact_view.view(facts, fact) for fact in facts.facts.values())
    yield from (layout_view.view(facts, id_) for id_ in facts.tables)
    yield from (redirect(old, new) for old, new in (RENAMED | dict(_one_for_every_n(facts))).items())


def other_views(facts: Facts) -> Iterator[View]:
    """All other pages."""
    maker_views, links = list_views.makers(facts)
    beyond = [*recipe_views.links(facts), *path_views.links(facts), *package_views.links(facts)]
    yield index_view.view(facts, links, beyond)
    yield from maker_views
    yield from index_view.shapes(facts)
    yield from (instruction_view.view(facts, name) for name in facts.instructions)
    yield from (list_views.arch(facts, name) for name in facts.archs)
    yield from shared_views.views(facts)
    yield from guide_views.views(facts)
    yield diff_view.view(facts)
    yield compare_view.view(facts)
    yield from number_views.views(facts)
    yield from bare_views.views(facts)
    yield play_view.view(facts)
    yield from wgmma_view.views(facts)
    yield list_views.errata(facts)
    yield from package_views.views(facts)
    shown_kernels = kernels.kernels(facts.layers)
    yield from recipe_views.views(facts, shown_kernels)
    yield from path_views.views(facts, shown_kernels)


def _one_for_every_n(facts: Facts) -> Iterator[tuple[str, str]]:
    """Pages of one N, as there were, and the page of every N that has taken their place."""
    for fact in facts.facts.values():
        for fragment in (cell.fragment for cell in fact.sizes if cell.fragment.shape.n in data_files.WITH_DATA):
            n = f"?n={fragment.shape.n}" if fact.grows else ""
            yield addresses.fact(fragment.id), addresses.fact(fact.id) + n
            for id_ in inventory.user_ids(fragment.id):
                yield addresses.instruction(id_), addresses.instruction(for_every_n(id_, fragment.shape))
            family = fragment.family
            yield index_view.shape_page(family, str(fragment.shape)), index_view.shape_page(family, fact.shape)


def redirect(old: str, new: str) -> View:
    """The stub that a renamed page leaves."""
    return View(old, "moved", "Moved", "", {"to": new})


def _others(facts: Facts) -> Iterator[tuple[str, str]]:
    yield from ((name, asset(name)) for name in STATIC)
    yield "search.js", data_files.names(facts)
    yield "json/all.json", data_files.everything(facts)
    yield "json/schema.json", data_files.schema()
    for fact in facts.facts.values():
        yield from data_files.fragments(fact)
    yield from thumbnails.files(facts)
    for address, cell in pictures(facts).items():
        yield address, svg.picture(cell)


def pictures(facts: Facts) -> dict[str, Cell]:
    """A cell for each picture: a layout in elements of some width is drawn once."""
    cells = (cell for fact in facts.facts.values() for cell in (*fact.cells.values(), fact.each[0]))
    return {address: cell for cell in cells if (address := picture(cell))}


def asset(name: str) -> str:
    """A file that is the same for every site, as it is written."""
    return (files("tcprobe.pages.site") / "static" / name).read_text("utf-8")
