"""Pages of recipes: what kernel authors ask for, with the answer and the code that commands print."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tcprobe.pages.site import addresses
from tcprobe.pages.site.facts import Facts
from tcprobe.pages.site.kernel_pages import KernelPages, multiply
from tcprobe.pages.site.recipes import Recipe, answers, recipes
from tcprobe.pages.site.render import Links, ListPart, View
from tcprobe.values import Json

PAGE = "recipes/index.html"
KERNEL = "recipes/kernel.html"
_NAME = re.compile(r"\b(?:mma|wmma|wgmma|ldmatrix|stmatrix)\.[\w.:]+")


def views(facts: Facts, kernels: Sequence[KernelPages]) -> Iterator[View]:
    """The pages that have an answer, and the page that leads to them."""
    pages = [page for recipe in recipes() if (page := _recipe(facts, recipe))]
    if kernels:
        pages.append(_kernels(kernels))
    if pages:
        yield _index(pages, kernels)
    yield from pages
    yield from (_kernel(facts, kernel_pages) for kernel_pages in kernels)


def links(facts: Facts) -> list[tuple[str, str]]:
    """The links to them on the first page."""
    return [("Recipes with code", PAGE)] if facts.layers.with_published else []


def _index(recipe_pages: Sequence[View], kernels: Sequence[KernelPages]) -> View:
    about = (
        "What kernel authors ask for, answered for common types and archs: the answer in words, and the code as the "
        "command prints it."
    )
    listed: Links = [(page.title, page.page) for page in recipe_pages]
    codes: Links = [(kernel_pages.head, kernel_pages.code) for kernel_pages in kernels]
    parts = [ListPart("Recipes", "recipes", links=listed)]
    parts += [ListPart("Code of kernels", "code", links=codes)] if codes else []
    context = {"paragraphs": [about], "parts": parts}
    return View(PAGE, "list", "Recipes", "Code for attention, epilogues, quantised weights and whole kernels", context)


def _recipe(facts: Facts, recipe: Recipe) -> View | None:
    cases = [
        {
            "head": recipe_command.head,
            "anchor": addresses.slug(recipe_command.head),
            "command": recipe_command.command,
            "lines": answer.lines,
            "links": _fragment_links(facts, recipe_command.command, recipe_command.arch),
            "code": answer.code,
        }
        for recipe_command, answer in answers(recipe.commands, facts.layers)
    ]
    context = {"words": recipe.words, "cases": cases}
    return View(f"recipes/{recipe.name}.html", "recipe", recipe.title, recipe.words, context) if cases else None


def _fragment_links(facts: Facts, typed_command: str, arch: str) -> list[tuple[str, str]]:
    """The pages of what a command names, on its arch."""
    links = []
    for id_ in dict.fromkeys(_NAME.findall(typed_command)):
        if fact := facts.by_fragment.get(id_):
            n = f"&n={fact.of_n(id_)}" if fact.grows else ""
            links.append((id_, f"{addresses.fact(fact.id)}?arch={arch}{n}"))
    return links


def _kernels(kernels: Sequence[KernelPages]) -> View:
    about = (
        "D = A B as one file that nvcc or NVRTC compiles alone. The loop and the barriers are by hand; every address "
        "and register comes from a table."
    )
    heads = ["Kernel", "Multiply", "Tile", "Threads", "Shared memory", "One element's path"]
    rows = [
        [
            [(kernel_pages.head, kernel_pages.code)],
            [(kernel_pages.kernel.gemm.instruction.id, "")],
            [("x".join(map(str, kernel_pages.kernel.gemm.tile)), "")],
            [(str(kernel_pages.kernel.block[0]), "")],
            [(f"{kernel_pages.kernel.shared_bytes} bytes", "")],
            [("step by step", kernel_pages.way)],
        ]
        for kernel_pages in kernels
    ]
    shell = "\n".join(kernel_pages.command for kernel_pages in kernels)
    parts = [
        ListPart("Kernels", "kernels", heads=heads, rows=rows, sorts=True),
        ListPart("In the shell", "shell", code=shell),
    ]
    return View(KERNEL, "list", "Whole kernels: GEMM", about, {"paragraphs": [about], "parts": parts})


def _kernel(facts: Facts, kernel_pages: KernelPages) -> View:
    kernel = kernel_pages.kernel
    head, *lines = kernel.launch_lines()
    words = f"{head}."
    case: Json = {
        "head": kernel_pages.head,
        "anchor": "code",
        "command": kernel_pages.command,
        "lines": [*lines, *kernel.gemm.evidence],
        "links": [
            *multiply(facts, kernel_pages),
            ("One element's path, step by step", kernel_pages.way),
            ("All kernels", KERNEL),
        ],
        "code": kernel.source,
    }
    title = f"GEMM kernel: {kernel_pages.head}"
    return View(kernel_pages.code, "recipe", title, words, {"words": words, "cases": [case]})
