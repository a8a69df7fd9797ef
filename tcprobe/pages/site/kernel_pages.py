"""The kernels that have pages, and the way of an element through one, step by step."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import reduce
from itertools import product
from operator import xor
from typing import NamedTuple

from tcprobe.errors import DataError, UsageError
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.operand import MULTIPLIED
from tcprobe.kernel.explain import RowColK, explain
from tcprobe.kernel.gemm import GemmKernel, GemmOptions, gemm
from tcprobe.pages.site import addresses, markup
from tcprobe.pages.site.facts import Facts, for_every_n
from tcprobe.pages.site.markup import ListPart, View, list_page
from tcprobe.store.choose import Layers
from tcprobe.values import Json


class KernelPages(NamedTuple):
    """A kernel by its arch and type, the command that prints it, and its pages: code and the way of an element."""

    kernel: GemmKernel
    arch: str
    type: str

    @property
    def command(self) -> str:
        """As in a shell."""
        return f"tcprobe kernel gemm --arch {self.arch} --type {self.type}"

    @property
    def head(self) -> str:
        """In words."""
        return f"{self.type} on {self.arch}"

    @property
    def code(self) -> str:
        return f"recipes/kernel-{self.arch}-{self.type}.html"

    @property
    def way(self) -> str:
        """The page that follows an element through it."""
        return f"path/{self.arch}-{self.type}.html"


def multiply_links(facts: Facts, kernel_pages: KernelPages) -> list[tuple[str, str]]:
    """The page of the multiply of a kernel, on its arch and for its N."""
    row = kernel_pages.kernel.gemm.instruction
    name = facts.page_names.get(row.id, "")
    n = f"&n={row.shape.n}" if name == for_every_n(row.id, row.shape) != row.id else ""
    return [(row.id, f"{addresses.instruction(name)}?arch={kernel_pages.arch}{n}")] if name else []


# the kernels that have pages: by arch the types
KERNELS = {
    "sm_70": ("f16",),
    "sm_75": ("f16", "s8"),
    "sm_80": ("f16", "bf16", "tf32", "s8"),
    "sm_89": ("f16", "e4m3"),
    "sm_90": ("f16", "bf16", "tf32", "e4m3", "s8"),
    "sm_120": ("f16", "e4m3"),
}


def kernels(layers: Layers) -> tuple[KernelPages, ...]:
    """Those that the folders have tables for."""
    pages = []
    for arch, kinds in KERNELS.items():
        for kind in kinds:
            with suppress(UsageError, DataError):
                pages.append(KernelPages(gemm(GemmOptions(arch, kind), layers), arch, kind))
    return tuple(pages)


WayPart = str | Json  # words, or how a number is made
COORDINATES = (0, 1, 3, 6, 13, 27, 52, 105, 211)  # of the sample, modulo the tile's sides
SAMPLED = tuple(product(COORDINATES[::2], COORDINATES[1::2], COORDINATES[::3]))
AXES = {"a": "rk", "b": "ck", "d": "rc"}
_NUMBER = re.compile(r"[0-9]+")
_STAGE, _FIRST_K = re.compile(r"\bstage [0-9]+"), re.compile(r"\bat k [0-9]+")


def ways(kernel: GemmKernel) -> Json:
    """For the script: the tile, the stages, and of each operand the steps, as texts and rules for their numbers.

    What `kernel gemm --explain` says of two elements of one tile has the same words and other numbers. Each is an XOR
    or a sum of numbers that belong to the bits of (row, col, k) in the tile. Which these are follows from the answers
    for one bit each, and is proven on a sample of elements. What lies outside the tile (lines of global memory, the
    stage, the tile's first k) is said by name.
    """
    gemm = kernel.gemm
    bits = {"a": dtype(gemm.type).bits, "b": dtype(gemm.type).bits, "d": dtype(gemm.out).bits}
    lines = {"a": gemm.a, "b": gemm.b, "d": "row"}
    return {
        "tile": list(gemm.tile),
        "stages": gemm.stages,
        "ways": {
            operand: {
                "bytes": bits[operand] // 8,
                "lines": lines[operand],
                "steps": _way_steps(kernel, number, gemm.tile),
            }
            for number, operand in enumerate(MULTIPLIED)
        },
    }


def _way_steps(kernel: GemmKernel, number: int, corner: RowColK) -> list[list[WayPart]]:
    """The steps of A, B or D: of each its parts."""

    def step_texts(row_col_k: RowColK) -> list[str]:
        return list(explain(kernel, row_col_k)[number]["steps"])

    axes = AXES[MULTIPLIED[number]]
    sides = [side if axis in axes else 1 for axis, side in zip("rck", corner, strict=True)]
    points = sorted({(row % sides[0], col % sides[1], k % sides[2]) for row, col, k in SAMPLED})
    return [_way_step(step_texts, step, sides, points) for step in range(len(step_texts((0, 0, 0))))]


def _way_step(
    step_texts: Callable[[RowColK], list[str]], step: int, tile_sides: Sequence[int], places_seen: Sequence[RowColK]
) -> list[WayPart]:
    if step_texts((0, 0, 0))[step].startswith("global: "):
        return [{"global": step_texts((0, 0, 0))[step][len("global: ")]}]

    def words_of(row_col_k: RowColK) -> str:
        """The step without the numbers that the tile's own place gives."""
        return _FIRST_K.sub("at k {k}", _STAGE.sub("stage {stage}", step_texts(row_col_k)[step]))

    texts = _NUMBER.split(words_of((0, 0, 0)))
    texts_seen = [words_of(element) for element in places_seen]
    if any(_NUMBER.split(words) != texts for words in texts_seen):
        raise ValueError(f"elements whose ways differ in more than numbers: {texts_seen[0]}")
    numbers = [_numbers(words) for words in texts_seen]
    images = [
        [_numbers(words_of(_unit_element(axis, bit))) for bit in range(side.bit_length() - 1)]
        for axis, side in enumerate(tile_sides)
    ]
    zero = _numbers(words_of((0, 0, 0)))
    parts: list[WayPart] = [texts[0]]
    for place, after in enumerate(texts[1:]):
        column = [[image[place] for image in axis_images] for axis_images in images]
        parts += [_number(zero[place], column, places_seen, [text_numbers[place] for text_numbers in numbers]), after]
    return _join(parts)


def _numbers(words: str) -> list[int]:
    return [int(number) for number in _NUMBER.findall(words)]


def _unit_element(axis: int, bit: int) -> RowColK:
    element = [0, 0, 0]
    element[axis] = 1 << bit
    return element[0], element[1], element[2]


def _number(zero: int, bit_images: list[list[int]], places_seen: Sequence[RowColK], expected: list[int]) -> WayPart:
    """How a number follows from an element's place; ValueError where neither way gives what is expected."""
    by_xor = [[image ^ zero for image in axis_images] for axis_images in bit_images]
    by_sum = [[image - zero for image in axis_images] for axis_images in bit_images]
    for op, axis_images in (("xor", by_xor), ("sum", by_sum)):
        if [value(op, zero, axis_images, place) for place in places_seen] == expected:
            return str(zero) if not any(map(any, axis_images)) else {"op": op, "zero": zero, "images": axis_images}
    raise ValueError(f"a number that is neither a sum nor an XOR of bits: {expected[:8]}")


def value(op: str, zero: int, bit_images: Sequence[Sequence[int]], coordinates: Sequence[int]) -> int:
    """The number of an element of the tile."""
    contributions = [
        image
        for axis_images, place in zip(bit_images, coordinates, strict=True)
        for bit, image in enumerate(axis_images)
        if place >> bit & 1
    ]
    return reduce(xor, contributions, zero) if op == "xor" else sum(contributions, zero)


def _join(pieces: Sequence[WayPart]) -> list[WayPart]:
    """Texts that follow each other as one."""
    joined: list[WayPart] = []
    for part in pieces:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        elif part != "":
            joined.append(part)
    return joined


PATHS_PAGE = "path/index.html"
SHOWN = (200, 150, 77)  # row, column and k of what stands there before anybody chooses
BOXES = (("row", "Row of A and D"), ("col", "Column of B and D"), ("k", "k"))
_BYTE = re.compile(r"\bbyte ([0-9]+)\b")


def path_pages(facts: Facts, kernels: Sequence[KernelPages]) -> Iterator[View]:
    """A page for each kernel, and the page that leads to them."""
    if kernels:
        yield _paths_index(kernels)
    yield from (_path_page(facts, kernel_pages) for kernel_pages in kernels)


def path_links(facts: Facts) -> list[tuple[str, str]]:
    """The links to them on the first page."""
    return [("One element's path through a kernel", PATHS_PAGE)] if facts.layers.with_published else []


def _paths_index(kernels: Sequence[KernelPages]) -> View:
    about = (
        "From global memory by TMA, cp.async or plain copies into shared memory, by ldmatrix into registers or "
        "straight into wgmma, through the tensor core into D, and out: which thread, byte and register holds the "
        "element at each step."
    )
    rows = [
        [
            [(kernel_pages.head, kernel_pages.way)],
            *([(" · ".join(map(_first_word, way["steps"])), "")] for way in explain(kernel_pages.kernel, SHOWN)),
        ]
        for kernel_pages in kernels
    ]
    parts = [ListPart("Kernels", "kernels", heads=["Kernel", "A", "B", "D"], rows=rows)]
    return list_page(PATHS_PAGE, "One element's path", about, [about], parts)


def _first_word(step_name: str) -> str:
    return re.split(r"[: ,]", step_name, maxsplit=1)[0].replace("read", "read by wgmma")


def _path_page(facts: Facts, kernel_pages: KernelPages) -> View:
    kernel, title = kernel_pages.kernel, f"One element's path: GEMM of {kernel_pages.head}"
    words = (
        f"{kernel.name}: tiles of {'x'.join(map(str, kernel.gemm.tile))}, {kernel.block[0]} threads, "
        f"{kernel.gemm.stages} stages in shared memory."
    )
    linked = [("The kernel's code", kernel_pages.code), ("All kernels", PATHS_PAGE)]
    linked += multiply_links(facts, kernel_pages)
    row, col, k = SHOWN
    context = {
        "words": words,
        "links": linked,
        "boxes": [(key, label, value) for (key, label), value in zip(BOXES, SHOWN, strict=True)],
        "ways": [
            {"operand": operand, "element": way["element"], "steps": [(step, _bank(step)) for step in way["steps"]]}
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
