"""All files of the site, by address, made in memory: nothing is written here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.resources import files

from tcprobe.ask import matrix_picture
from tcprobe.isa import inventory
from tcprobe.pages.site import (
    addresses,
    check_pages,
    comparison_pages,
    data_files,
    fact_pages,
    front_pages,
    instruction_pages,
    kernel_pages,
    number_pages,
    order_pages,
    recipe_pages,
    shared_memory_pages,
    tensor_memory_pages,
    tile_pages,
)
from tcprobe.pages.site.data_files import picture_of
from tcprobe.pages.site.facts import Facts, for_every_n
from tcprobe.pages.site.markup import View, render
from tcprobe.store.cell import Cell
from tcprobe.system.children import in_second_process

RENAMED: dict[str, str] = {}  # address of a page that was renamed: where it is now
STATIC = (".css", ".js", ".svg")  # what the folder of that name has for readers; the rest is for editors


def build(facts: Facts) -> dict[str, str]:
    """Text by address; a second process makes the pages of fragments and layouts and the data, where it can."""
    fragments = in_second_process(lambda: {**_render(fragment_views(facts)), **dict(_others(facts))})
    written = _render(other_views(facts))
    return {**fragments(), **written, **dict(data_files.search_files(facts, written))}


def _render(some_views: Iterable[View]) -> dict[str, str]:
    return {view.page: render(view) for view in some_views}


def fragment_views(facts: Facts) -> Iterator[View]:
    """The pages of fragments, those that have moved among them, and of layouts."""
    yield from (fact_pages.fact_page(facts, fact) for fact in facts.facts.values())
    yield from (fact_pages.layout_page(facts, id_) for id_ in facts.tables)
    yield from (redirect(old, new) for old, new in (RENAMED | dict(_one_for_every_n(facts))).items())


def other_views(facts: Facts) -> Iterator[View]:
    """All other pages."""
    maker_views, links = front_pages.maker_pages(facts)
    beyond = [
        *recipe_pages.recipe_links(facts),
        *kernel_pages.path_links(facts),
        *comparison_pages.package_links(facts),
    ]
    yield front_pages.front_page(facts, links, beyond)
    yield from maker_views
    yield from front_pages.shape_pages(facts)
    yield from (instruction_pages.instruction_page(facts, name) for name in facts.instructions)
    yield from (front_pages.arch_page(facts, name) for name in facts.archs)
    yield from shared_memory_pages.shared_memory_pages(facts)
    yield from front_pages.guide_pages(facts)
    yield comparison_pages.diff_page(facts)
    yield comparison_pages.compare_page(facts)
    yield from number_pages.number_pages(facts)
    yield from order_pages.order_pages(facts)
    yield from check_pages.check_pages(facts)
    yield from tile_pages.tile_pages(facts)
    yield from tensor_memory_pages.bare_pages(facts)
    yield shared_memory_pages.playground(facts)
    yield from instruction_pages.wgmma_pages(facts)
    yield front_pages.errata_page(facts)
    yield from comparison_pages.package_pages(facts)
    shown_kernels = kernel_pages.kernels(facts.layers)
    yield from recipe_pages.recipe_pages(facts, shown_kernels)
    yield from kernel_pages.path_pages(facts, shown_kernels)


def _one_for_every_n(facts: Facts) -> Iterator[tuple[str, str]]:
    """Pages of one N, as there were, and the page of every N that has taken their place."""
    for fact in facts.facts.values():
        for fragment in (cell.fragment for cell in fact.sizes if cell.fragment.shape.n in data_files.WITH_DATA):
            n = f"?n={fragment.shape.n}" if fact.grows else ""
            yield addresses.fact(fragment.id), addresses.fact(fact.id) + n
            for id_ in inventory.user_ids(fragment.id):
                yield addresses.instruction(id_), addresses.instruction(for_every_n(id_, fragment.shape))
            family = fragment.family
            yield front_pages.shape_address(family, str(fragment.shape)), front_pages.shape_address(family, fact.shape)


def redirect(old: str, new: str) -> View:
    """The stub that a renamed page leaves."""
    return View(old, "moved", "Moved", "", {"to": new})


def _others(facts: Facts) -> Iterator[tuple[str, str]]:
    names = sorted(path.name for path in (files("tcprobe.pages.site") / "static").iterdir())
    yield from ((name, asset(name)) for name in names if name.endswith(STATIC))
    yield "search.js", data_files.names(facts)
    yield "json/all.json", data_files.everything(facts)
    yield "json/schema.json", data_files.schema()
    for fact in facts.facts.values():
        yield from data_files.fragment_files(fact)
    yield from data_files.thumbnail_files(facts)
    for address, cell in pictures(facts).items():
        yield address, matrix_picture.picture(cell)


def pictures(facts: Facts) -> dict[str, Cell]:
    """A cell for each picture: a layout in elements of some width is drawn once."""
    cells = (cell for fact in facts.facts.values() for cell in (*fact.cells.values(), fact.each[0]))
    return {address: cell for cell in cells if (address := picture_of(cell))}


def asset(name: str) -> str:
    """A file that is the same for every site, as it is written."""
    return (files("tcprobe.pages.site") / "static" / name).read_text("utf-8")
