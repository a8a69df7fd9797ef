"""Pages that follow one element of A, B and D through a whole kernel, step by step."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tcprobe.isa.operand import MULTIPLIED
from tcprobe.kernel.explain import explain
from tcprobe.pages.site import markup
from tcprobe.pages.site.facts import Facts
from tcprobe.pages.site.kernel_pages import KernelPages, multiply
from tcprobe.pages.site.render import ListPart, View
from tcprobe.pages.site.way import ways

PAGE = "path/index.html"
SHOWN = (200, 150, 77)  # row, column and k of what stands there before anybody chooses
BOXES = (("row", "Row of A and D"), ("col", "Column of B and D"), ("k", "k"))
_BYTE = re.compile(r"\bbyte ([0-9]+)\b")


def views(facts: Facts, kernels: Sequence[KernelPages]) -> Iterator[View]:
    """A page for each kernel, and the page that leads to them."""
    if kernels:
        yield _index(kernels)
    yield from (_way(facts, kernel_pages) for kernel_pages in kernels)


def links(facts: Facts) -> list[tuple[str, str]]:
    """The links to them on the first page."""
    return [("One element's path through a kernel", PAGE)] if facts.layers.with_published else []


def _index(kernels: Sequence[KernelPages]) -> View:
    about = (
        "From global memory by TMA, cp.async or plain copies into shared memory, by ldmatrix into registers or "
        "straight into wgmma, through the tensor core into D, and out: which thread, byte and register holds the "
        "element at each step."
    )
    rows = [
        [
            [(kernel_pages.head, kernel_pages.way)],
            *([(" · ".join(map(_kind, way["steps"])), "")] for way in explain(kernel_pages.kernel, SHOWN)),
        ]
        for kernel_pages in kernels
    ]
    parts = [ListPart("Kernels", "kernels", heads=["Kernel", "A", "B", "D"], rows=rows)]
    return View(PAGE, "list", "One element's path", about, {"paragraphs": [about], "parts": parts})


def _kind(step_name: str) -> str:
    """What a step is: its first word."""
    return re.split(r"[: ,]", step_name, maxsplit=1)[0].replace("read", "read by wgmma")


def _way(facts: Facts, kernel_pages: KernelPages) -> View:
    kernel, title = kernel_pages.kernel, f"One element's path: GEMM of {kernel_pages.head}"
    words = (
        f"{kernel.name}: tiles of {'x'.join(map(str, kernel.gemm.tile))}, {kernel.block[0]} threads, "
        f"{kernel.gemm.stages} stages in shared memory."
    )
    linked = [("The kernel's code", kernel_pages.code), ("All kernels", PAGE), *multiply(facts, kernel_pages)]
    row, col, k = SHOWN
    context = {
        "words": words,
        "links": linked,
        "boxes": [(key, label, value) for (key, label), value in zip(BOXES, SHOWN, strict=True)],
        "ways": [
            {
                "operand": operand,
                "element": way["element"],
                "steps": [(step, _bank(step)) for step in way["steps"]],
            }
            for operand, way in zip(MULTIPLIED, explain(kernel, SHOWN), strict=True)
        ],
        "product": f"D(row, col) += A(row, k) B(k, col) in {kernel.gemm.instruction.id}.",
        "command": f"{kernel_pages.command} --explain {row} {col} {k}",
        "data": markup.data({"kind": "way", **ways(kernel), "command": kernel_pages.command}),
    }
    return View(kernel_pages.way, "way", title, f"{title}: from global memory to D", context)


def _bank(step_name: str) -> int | None:
    """The bank of the byte of shared memory that a step names."""
    return int(byte[1]) // 4 % 32 if (byte := _BYTE.search(step_name)) else None
