"""Recipes of kernel authors: what is asked, as commands say it, what is answered, and the code as commands print it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from typing import NamedTuple

from tcprobe import facts as tables
from tcprobe.ask.convert.code import header
from tcprobe.ask.convert.conversion import plan_conversion, with_register_type
from tcprobe.ask.convert.stmatrix import StoreOptions, plan_store_code
from tcprobe.ask.load import repack_code
from tcprobe.ask.load.repack import repack, summary_lines
from tcprobe.ask.path import code as path_code
from tcprobe.ask.path.plan import PathOptions, PathPlan, formulas, plan_path, request
from tcprobe.ask.reduce.mask import mask_fragment
from tcprobe.ask.reduce.reduction import reduce_fragment
from tcprobe.code.cuda import origin
from tcprobe.errors import DataError, UsageError
from tcprobe.isa.operand import FACTORS
from tcprobe.pages.site import addresses
from tcprobe.pages.site.facts import Facts
from tcprobe.pages.site.kernel_pages import KernelPages, multiply_links
from tcprobe.pages.site.markup import Links, ListPart, View, cells, list_page
from tcprobe.store.cell import Cell
from tcprobe.store.choose import Layers
from tcprobe.store.names import find_cell
from tcprobe.values import Json

F16, BF16 = (f"mma.m16n8k16.row.col.f32.{kind}.{kind}.f32" for kind in ("f16", "bf16"))
TF32 = "mma.m16n8k8.row.col.f32.tf32.tf32.f32"
E4M3, S8 = "mma.m16n8k32.row.col.f32.e4m3.e4m3.f32", "mma.m16n8k32.row.col.s32.s8.s8.s32"
K8 = "mma.m16n8k8.row.col.f32.f16.f16.f32"  # the largest of sm_75
VOLTA = "mma.m8n8k4.row.col.f32.f16.f16.f32"
WGMMA = "wgmma.mma_async.m64n64k16.f32.{0}.{0}"
NEW, OLD = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"), ("sm_75",)
MASK, FILL = "row + row0 >= col + col0", "-inf"
LINE = "sw:3,4,3"  # the swizzle of lines of 128 bytes


@dataclass(frozen=True)
class RecipeAnswer:
    """What a command says in lines, and the code that it prints."""

    lines: list[str]
    code: str


class RecipeCommand(NamedTuple):
    """A command on one arch, as a shell takes it, and the function that answers it."""

    head: str
    arch: str
    command: str
    answer: Callable[[Layers], RecipeAnswer]


class Recipe(NamedTuple):
    """A page: its name, title and words; COMMANDS has its commands for each type and arch."""

    name: str
    title: str
    words: str

    @property
    def commands(self) -> tuple[RecipeCommand, ...]:
        return commands(self.name)


def answers(recipe_commands: Iterable[RecipeCommand], layers: Layers) -> Iterator[tuple[RecipeCommand, RecipeAnswer]]:
    """The commands that these folders can answer, each with its answer; the others are left out."""
    for recipe_command in recipe_commands:
        with suppress(UsageError, DataError):
            yield recipe_command, recipe_command.answer(layers)


def _cell(name: str, arch: str, layers: Layers) -> Cell:
    return find_cell(name, arch, layers).cell


def _conversion_answer(pair: tuple[str, str], arch: str, permuted: bool, layers: Layers) -> RecipeAnswer:
    source, target = (_cell(name, arch, layers) for name in pair)
    conversion = plan_conversion(with_register_type(source, None), target, permute_k=permuted)
    tiles = conversion.tiling
    line = f"{tiles.source_tiles} of {tiles.source.fragment.id} to {tiles.target_tiles} of {tiles.target.fragment.id}"
    return RecipeAnswer([line, *conversion.moves, *_origins(tiles.source, tiles.target)], header([conversion]))


def _origins(*cells: Cell) -> list[str]:
    return list(dict.fromkeys(map(origin, cells)))


def _reduction_answer(name: str, arch: str, op: str, layers: Layers) -> RecipeAnswer:
    cell = _cell(name, arch, layers)
    reduction = reduce_fragment(cell, "row", op, "softmax" if op == "softmax" else "reduce")
    return RecipeAnswer([*reduction.words(), *_origins(cell)], reduction.code)


def _mask_answer(name: str, arch: str, layers: Layers) -> RecipeAnswer:
    cell = _cell(name, arch, layers)
    masking = mask_fragment(cell, MASK, FILL, "mask")
    return RecipeAnswer([*masking.words(), *_origins(cell)], masking.code)


def _store_answer(name: str, arch: str, kind: str, placed: str, layers: Layers) -> RecipeAnswer:
    store = plan_store_code(
        with_register_type(_cell(name, arch, layers), None), StoreOptions("stmatrix", kind, "row", placed), "convert"
    )
    tile = store.tile
    lines = [
        f"into {tile.rows} x {tile.cols} of {tile.type} in shared memory, {store.shared}: "
        f"{store.shared.bytes(tile)} bytes, start aligned to {store.alignment}",
        f"{store.conversion.summary}; per lane: {store.conversion.words}",
        f"{len(store.addresses)} x {store.ptx}: {store.wavefronts} wavefronts for all warps, ideal {store.ideal}",
    ]
    return RecipeAnswer([*lines, *store.evidence], header([store.conversion]))


def _weights_answer(name: str, arch: str, kind: str, language: str, layers: Layers) -> RecipeAnswer:
    weights = repack(_cell(name, arch, layers), kind, None, None, layers)
    code = repack_code.source(weights) if language == "cuda" else repack_code.packer_source(weights, language)
    return RecipeAnswer(summary_lines(weights), code)


def _load_answer(name: str, arch: str, contiguous: str, layers: Layers) -> RecipeAnswer:
    cell = _cell(name, arch, layers)
    plan = plan_path(request(cell, PathOptions("64x64", contiguous, _swizzle_of(cell), fill=_fill(arch))))
    return RecipeAnswer([*steps_of(plan), *plan.evidence], path_code.source(plan))


def _fill(arch: str) -> str | None:
    return "plain" if int(arch[3:]) < 80 else None


def _swizzle_of(cell: Cell) -> str:
    """The swizzle under which 8 lines of 64 elements take every bank once."""
    return "sw:2,4,3" if cell.fragment.slot_bits == 8 else "sw:3,4,4" if cell.fragment.slot_bits == 32 else LINE


def steps_of(plan: PathPlan) -> Iterator[str]:
    """A line for each step of a path, with its addresses, then what is proven."""
    for step in plan.steps:
        counted = f"{step.wavefronts} wavefronts, at best {step.ideal}" if step.wavefronts is not None else ""
        head = [f"{step.kind}: {step.instruction}", f"{len(step.issues())} issues per warp", counted]
        places = [f"{place} address {text}" for place, text in formulas(plan.request, step).items() if text]
        yield "; ".join(filter(None, [*head, *places]))
    yield f"proven: all {plan.fragments * plan.request.cell.table.points} slots' elements arrive at their places"


def _p_as_a() -> Iterator[RecipeCommand]:
    wide = [("f16", F16, F16), ("bf16", BF16, BF16), ("tf32", TF32, TF32)]
    ways = [(kind, arch, d, a, False) for (kind, d, a), arch in product(wide, ("sm_80", "sm_90"))]
    ways += [("fp8 (e4m3)", arch, F16, E4M3, how) for how in (False, True) for arch in ("sm_89", "sm_120")]
    ways += [("f16", "sm_75", K8, K8, False)]
    ways += [(f"{kind}, wgmma", "sm_90", WGMMA.format(kind), WGMMA.format(kind), False) for kind in ("f16", "bf16")]
    for kind, arch, d, a, permuted in ways:
        how = " --permute-k" if permuted else ""
        answer = partial(_conversion_answer, (f"{d}.d", f"{a}.a"), arch, permuted)
        title = f"{kind} on {arch}{', k permuted' if permuted else ''}"
        yield RecipeCommand(title, arch, f"tcprobe convert {d}.d {a}.a --arch {arch}{how}", answer)


ACCUMULATORS = (
    *(("m16n8k16", f"{F16}.d", arch) for arch in ("sm_80", "sm_89", "sm_90", "sm_120")),
    ("m16n8k8", f"{K8}.d", "sm_75"),
    ("m8n8k4", f"{VOLTA}.d", "sm_70"),
    ("wgmma m64n64k16", f"{WGMMA.format('f16')}.d", "sm_90"),
    *(("wmma m16n16k16", "wmma.m16n16k16.d.f32", arch) for arch in ("sm_70", "sm_90")),
)


def _softmax() -> Iterator[RecipeCommand]:
    ways = [(title, name, arch, "softmax") for title, name, arch in ACCUMULATORS]
    ways += [("m16n8k16", f"{F16}.d", "sm_80", op) for op in ("max", "sum")]
    for title, name, arch, op in ways:
        command = f"tcprobe reduce {name} --over row --op {op} --arch {arch}"
        yield RecipeCommand(f"{op}, {title} on {arch}", arch, command, partial(_reduction_answer, name, arch, op))


def _causal() -> Iterator[RecipeCommand]:
    for title, name, arch in ACCUMULATORS:
        command = f"tcprobe reduce {name} --mask '{MASK}' --fill {FILL} --arch {arch}"
        yield RecipeCommand(f"{title} on {arch}", arch, command, partial(_mask_answer, name, arch))


def _epilogue() -> Iterator[RecipeCommand]:
    names = [("m16n8k16", f"{F16}.d", "plain"), ("wgmma m64n64k16", f"{WGMMA.format('f16')}.d", LINE)]
    ways = [(*accumulator, kind, "sm_90") for accumulator in names for kind in ("f16", "bf16")]
    ways += [("m16n8k16", f"{F16}.d", "plain", "bf16", arch) for arch in ("sm_100", "sm_120")]
    for title, name, placed, kind, arch in ways:
        shared = "" if placed == "plain" else f" --shared {placed}"
        command = f"tcprobe convert {name} stmatrix --type {kind}{shared} --arch {arch}"
        yield RecipeCommand(
            f"{title} to {kind} on {arch}", arch, command, partial(_store_answer, name, arch, kind, placed)
        )


def _weights() -> Iterator[RecipeCommand]:
    ways = [(F16, kind, arch) for arch in ("sm_80", "sm_90") for kind in ("s4", "u4", "s8")]
    ways += [(BF16, "s4", "sm_80"), (F16, "e4m3", "sm_89"), (F16, "e2m1", "sm_120"), (S8, "s4", "sm_80")]
    for name, kind, arch in ways:
        element_type = name.split(".")[5]
        command = f"tcprobe load {name}.b --repack --type {kind} --code --arch {arch}"
        answer = partial(_weights_answer, f"{name}.b", arch, kind, "cuda")
        yield RecipeCommand(f"{kind} for {element_type} on {arch}", arch, command, answer)
    for language in ("numpy", "torch"):
        command = f"tcprobe load {F16}.b --repack --type s4 --packer {language} --arch sm_80"
        answer = partial(_weights_answer, f"{F16}.b", "sm_80", "s4", language)
        yield RecipeCommand(f"s4: repacked by {language}", "sm_80", command, answer)


WHOLE = (("a", "row"), ("b", "col"))  # operands with k contiguous
HALVES = (
    *((F16, operand, lines, "sm_80") for operand in FACTORS for lines in ("row", "col")),
    *(
        (name, *operand_lines, arch)
        for name, arch in ((F16, "sm_90"), (BF16, "sm_80"), (K8, "sm_75"))
        for operand_lines in WHOLE
    ),
)
OTHERS = tuple(
    (name, *operand_lines, arch)
    for name, arch in ((TF32, "sm_80"), (S8, "sm_80"), (E4M3, "sm_89"))
    for operand_lines in WHOLE
)


def _ldmatrix(ways: Iterable[tuple[str, str, str, str]]) -> Iterator[RecipeCommand]:
    for name, operand, lines, arch in ways:
        kind = name.split(".")[5]
        shared = {"s8": "sw:2,4,3", "e4m3": "sw:2,4,3", "tf32": "sw:3,4,4"}.get(kind, LINE)
        fill = " --fill plain" if _fill(arch) else ""
        command = f"tcprobe path {name}.{operand} --tile 64x64 --global {lines} --shared {shared}{fill} --code cuda"
        title = f"{operand.upper()} of {kind}, {lines}s contiguous, on {arch}"
        yield RecipeCommand(
            title, arch, f"{command} --arch {arch}", partial(_load_answer, f"{name}.{operand}", arch, lines)
        )


COMMANDS: dict[str, Callable[[], Iterator[RecipeCommand]]] = {
    "p-as-a": _p_as_a,
    "softmax": _softmax,
    "causal-mask": _causal,
    "epilogue": _epilogue,
    "repacked-weights": _weights,
    "ldmatrix": partial(_ldmatrix, HALVES),
    "ldmatrix-8-and-32-bits": partial(_ldmatrix, OTHERS),
}


@cache
def commands(recipe_name: str) -> tuple[RecipeCommand, ...]:
    """The commands of a recipe, for each type and arch."""
    return tuple(COMMANDS[recipe_name]())


@cache
def recipes() -> tuple[Recipe, ...]:
    """Every page of recipes but that of kernels."""
    return tables.read(__file__, "recipes.csv", Recipe, name=tables.one_of(*COMMANDS))


RECIPES_PAGE = "recipes/index.html"
KERNEL = "recipes/kernel.html"
_NAME = re.compile(r"\b(?:mma|wmma|wgmma|ldmatrix|stmatrix)\.[\w.:]+")


def recipe_pages(facts: Facts, kernels: Sequence[KernelPages]) -> Iterator[View]:
    """The pages that have an answer, and the page that leads to them."""
    pages = [page for recipe in recipes() if (page := _recipe(facts, recipe))]
    if kernels:
        pages.append(_kernels_page(kernels))
    if pages:
        yield _recipes_index(pages, kernels)
    yield from pages
    yield from (_kernel_page(facts, kernel_pages) for kernel_pages in kernels)


def recipe_links(facts: Facts) -> list[tuple[str, str]]:
    """The links to them on the first page."""
    return [("Recipes with code", RECIPES_PAGE)] if facts.layers.with_published else []


def _recipes_index(shown_pages: Sequence[View], kernels: Sequence[KernelPages]) -> View:
    about = (
        "What kernel authors ask for, answered for common types and archs: the answer in words, and the code as the "
        "command prints it."
    )
    listed: Links = [(page.title, page.page) for page in shown_pages]
    codes: Links = [(kernel_pages.head, kernel_pages.code) for kernel_pages in kernels]
    parts = [ListPart("Recipes", "recipes", links=listed)]
    parts += [ListPart("Code of kernels", "code", links=codes)] if codes else []
    title = "Code for attention, epilogues, quantised weights and whole kernels"
    return list_page(RECIPES_PAGE, "Recipes", title, [about], parts)


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


def _kernels_page(kernels: Sequence[KernelPages]) -> View:
    about = (
        "D = A B as one file that nvcc or NVRTC compiles alone. The loop and the barriers are by hand; every address "
        "and register comes from a table."
    )
    heads = ["Kernel", "Multiply", "Tile", "Threads", "Shared memory", "One element's path"]
    rows = []
    for kernel_pages in kernels:
        kernel, plan = kernel_pages.kernel, kernel_pages.kernel.gemm
        sizes = ("x".join(map(str, plan.tile)), kernel.block[0], f"{kernel.shared_bytes} bytes")
        way = [("step by step", kernel_pages.way)]
        rows.append([[(kernel_pages.head, kernel_pages.code)], *cells(plan.instruction.id, *sizes), way])
    shell = "\n".join(kernel_pages.command for kernel_pages in kernels)
    parts = [
        ListPart("Kernels", "kernels", heads=heads, rows=rows, sorts=True),
        ListPart("In the shell", "shell", code=shell),
    ]
    return list_page(KERNEL, "Whole kernels: GEMM", about, [about], parts)


def _kernel_page(facts: Facts, kernel_pages: KernelPages) -> View:
    kernel = kernel_pages.kernel
    head, *lines = kernel.launch_lines()
    words, links = f"{head}.", multiply_links(facts, kernel_pages)
    case: Json = {
        "head": kernel_pages.head,
        "anchor": "code",
        "command": kernel_pages.command,
        "lines": [*lines, *kernel.gemm.evidence],
        "links": [*links, ("One element's path, step by step", kernel_pages.way), ("All kernels", KERNEL)],
        "code": kernel.source,
    }
    title = f"GEMM kernel: {kernel_pages.head}"
    return View(kernel_pages.code, "recipe", title, words, {"words": words, "cases": [case]})
