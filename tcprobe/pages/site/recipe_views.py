"""Pages of recipes: what kernel authors ask for, with the answer and the code that commands print."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tcprobe.pages.site import addresses
from tcprobe.pages.site.facts import Facts
from tcprobe.pages.site.kernel_pages import KernelPages, multiply
from tcprobe.pages.site.recipes import Recipe, answered, recipes
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
    yield from (_kernel(facts, one) for one in kernels)


def links(facts: Facts) -> list[tuple[str, str]]:
    """What the first page says of them."""
    return [("Recipes with code", PAGE)] if facts.layers.with_published else []


def _index(recipe_pages: Sequence[View], kernels: Sequence[KernelPages]) -> View:
    about = (
        "What kernel authors ask for, answered for common types and archs: the answer in words, and the code as the "
        "command prints it."
    )
    listed: Links = [(page.title, page.page) for page in recipe_pages]
    codes: Links = [(one.head, one.code) for one in kernels]
    parts = [ListPart("Recipes", "recipes", links=listed)]
    parts += [ListPart("Code of kernels", "code", links=codes)] if codes else []
    shown = {"paragraphs": [about], "parts": parts}
    return View(PAGE, "list", "Recipes", "Code for attention, epilogues, quantised weights and whole kernels", shown)


def _recipe(facts: Facts, recipe: Recipe) -> View | None:
    cases = [
        {
            "head": asked.head,
            "anchor": addresses.slug(asked.head),
            "command": asked.command,
            "lines": answer.lines,
            "links": _named(facts, asked.command, asked.arch),
            "code": answer.code,
        }
        for asked, answer in answered(recipe.asked, facts.layers)
    ]
    shown = {"words": recipe.words, "cases": cases}
    return View(f"recipes/{recipe.name}.html", "recipe", recipe.title, recipe.words, shown) if cases else None


def _named(facts: Facts, typed_command: str, arch: str) -> list[tuple[str, str]]:
    """The pages of what a command names, on its arch."""
    found = []
    for id_ in dict.fromkeys(_NAME.findall(typed_command)):
        if fact := facts.of.get(id_):
            n = f"&n={fact.of_n(id_)}" if fact.grows else ""
            found.append((id_, f"{addresses.fact(fact.id)}?arch={arch}{n}"))
    return found


def _kernels(kernels: Sequence[KernelPages]) -> View:
    about = (
        "D = A B as one file that nvcc or NVRTC compiles alone. The loop and the barriers are by hand; every address "
        "and register comes from a table."
    )
    heads = ["Kernel", "Multiply", "Tile", "Threads", "Shared memory", "One element's path"]
    rows = [
        [
            [(one.head, one.code)],
            [(one.kernel.asked.instruction.id, "")],
            [("x".join(map(str, one.kernel.asked.tile)), "")],
            [(str(one.kernel.block[0]), "")],
            [(f"{one.kernel.shared_bytes} bytes", "")],
            [("step by step", one.way)],
        ]
        for one in kernels
    ]
    shell = "\n".join(one.command for one in kernels)
    parts = [
        ListPart("Kernels", "kernels", heads=heads, rows=rows, sorts=True),
        ListPart("In the shell", "shell", code=shell),
    ]
    return View(KERNEL, "list", "Whole kernels: GEMM", about, {"paragraphs": [about], "parts": parts})


def _kernel(facts: Facts, kernel_pages: KernelPages) -> View:
    one = kernel_pages.kernel
    said = one.to_json(None)
    words = f"{one.name}: {said['multiply']}, {one.block[0]} threads, {one.shared_bytes} bytes of shared memory."
    lines = [
        f"grid: {said['grid'][0]}, {said['grid'][1]}",
        "registers: " + ", ".join(f"{count} of {name}" for name, count in said["registers"].items()),
        *(
            f"{name}: {step['instruction']}, {step['wavefronts']} wavefronts for a warp's part, ideal {step['ideal']}"
            for name, step in said["wavefronts"].items()
        ),
        *said["evidence"],
    ]
    case: Json = {
        "head": kernel_pages.head,
        "anchor": "code",
        "command": kernel_pages.command,
        "lines": lines,
        "links": [
            *multiply(facts, kernel_pages),
            ("One element's path, step by step", kernel_pages.way),
            ("All kernels", KERNEL),
        ],
        "code": one.source,
    }
    title = f"GEMM kernel: {kernel_pages.head}"
    return View(kernel_pages.code, "recipe", title, words, {"words": words, "cases": [case]})
