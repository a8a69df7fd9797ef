"""Options that several questions have, and how answers are found and printed: the same everywhere."""

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import click

from tcprobe.errors import UsageError
from tcprobe.isa.arch import arch as named
from tcprobe.question import options, terminal, words
from tcprobe.question.arguments import ArchName, PlaceName, Sizes, arch_name, place, sizes, word
from tcprobe.question.declare import Option, note
from tcprobe.question.options import Named, NonEmptyText
from tcprobe.store.cell import Cell
from tcprobe.store.choose import Layers
from tcprobe.text import escaped


def output_option(words: str) -> Option:
    """The option of a file to write."""
    return Option("--output", words, reads=options.Output(path_type=Path, dir_okay=False), also="-o")


OutputOption = Annotated[Path | None, output_option("File for the code.")]
ArchOption = Annotated[
    ArchName | None,
    Option(
        "--arch", "Compute capability: sm_90; or several: sm_70,h100.", "sm_XX[,...]", NonEmptyText(), word=words.ARCH
    ),
]
OneArch = Annotated[
    ArchName | None,
    Option("--arch", "Compute capability, for example sm_90.", "sm_XX", NonEmptyText(), word=words.ARCH),
]
ResultsOption = Annotated[
    Path | None,
    Option(
        "--results",
        "Folder of measurements that take precedence over the published ones. Default: ./results, if it has any.",
        reads=Named(file_okay=False),
    ),
]
OnlyOption = Annotated[bool, Option("--only", "Read that folder alone, not the published tables.")]
FullOption = Annotated[bool, Option("--full", "Everything: each number, each address table, each source.")]
SvgOption = Annotated[
    Path | None,
    Option(
        "--svg", "Also write its picture to this file, as SVG.", "FILE", options.Output(path_type=Path, dir_okay=False)
    ),
]
JsonOption = Annotated[bool, Option("--json", "JSON for other programs.")]
SarifOption = Annotated[
    Path | None,
    Option("--sarif", "Also write SARIF 2.1.0 to this file.", "FILE", options.Output(path_type=Path, dir_okay=False)),
]
SaveOption = Annotated[
    Path | None,
    Option("--save", "Also save into this results folder.", reads=Named(path_type=Path, file_okay=False)),
]
FunctionsOption = Annotated[
    str | None, Option("--kernel", "Only functions of this name, a pattern with * and ?.", "NAME", NonEmptyText())
]
NameOption = Annotated[str | None, Option("--name", "Name of the struct or function in the code.", "NAME")]
NamespaceOption = Annotated[str | None, Option("--namespace", "Namespace of the code: a name, or a::b.", "NS")]
CudaOption = Annotated[
    Path | None,
    Option(
        "--cuda",
        "CUDA toolkit folder whose ptxas, and nvdisasm if it has one, to use. "
        "Default: CUDA_HOME, the installed wheels, PATH.",
        reads=Named(exists=True, file_okay=False),
    ),
]
GlobalOption = Annotated[
    Literal["row", "col"] | None,
    Option("--global", "What is contiguous in memory: rows (row-major) or columns.", default="row", word=words.LINES),
]
SharedOption = Annotated[
    PlaceName | None,
    Option(
        "--shared",
        "Layout of lines: plain (the default), pad:BYTES, boxes:BYTES, or a swizzle: 128 (SWIZZLE_128B), which means "
        "the boxes of that mode, or sw:B,M,S of byte offsets.",
        "PLACE",
        NonEmptyText(),
        word=words.PLACE,
    ),
]
SwizzleOption = Annotated[
    PlaceName | None,
    Option(
        "--swizzle",
        "Instead of --shared: none, 32, 64, 128 (SWIZZLE_128B), or 3,4,3 (sw:3,4,3).",
        reads=options.SwizzleText(),
    ),
]


TileOption = Annotated[
    Sizes | None,
    Option(
        "--tile",
        "The tile that a written layout covers, ROWSxCOLS; with --warps the CTA's tile, MxNxK.",
        "SIZES",
        NonEmptyText(),
        word=words.TILE,
    ),
]
WarpsOption = Annotated[
    str | None,
    Option(
        "--warps",
        "FRAGMENT spread over a CTA's tile by this many warps (wgmma: warpgroups) along m and n, m fastest: 2x4, or "
        "2x4:4,1 with strides.",
        "RxC[:STRIDES]",
        NonEmptyText(),
    ),
]
PermuteOption = Annotated[
    str | None,
    Option(
        "--permute",
        "With --warps: a permutation of m, n and k, as in CuTe: 32,(8,2,2):(1,16,8),_.",
        "M,N,K",
        NonEmptyText(),
    ),
]


def place_of(placed: PlaceName | None, swizzle: PlaceName | None) -> str:
    """Where a tile lies, by one of two parameters, a swizzle in its one spelling; plain without both."""
    if placed is not None and swizzle is not None:
        raise UsageError("`placed` and `swizzle` set the same thing: remove one of them.")
    return place(next((each for each in (placed, swizzle) if each is not None), "plain"))


def tile_text(tile: Sizes) -> str:
    """ROWSxCOLS of a tile, as text or numbers; a text that is none stays as it is."""
    if isinstance(tile, str) and "," not in tile:
        return tile
    return "x".join(map(str, sizes("tile", tile, 2)))


def tiled_name(
    name: str | Cell,
    tile: Sizes | None,
    warps: str | None,
    permute: str | None = None,
    kind: str | None = None,
    needs_tile: bool = True,
) -> str | Cell:
    """A name with what options say of its tile, as one text; UsageError where they do not go with what is named.

    Where `needs_tile` is not so, a tile is of memory: a layout's text is over it only where it says no other.
    """
    from tcprobe.notation import begins_layout, is_written, spelled, with_options

    if isinstance(name, Cell):
        if warps is not None or permute is not None:
            raise UsageError("`warps` and `permute` go with a name, not with a table.")
        return name
    text = None if tile is None else "x".join(map(str, sizes("tile", tile, 3)))
    if warps is None and not is_written(name):
        if permute is not None:
            raise UsageError("`permute` needs `warps`.")
        if tile is not None and needs_tile:
            raise UsageError(
                "`tile` needs `warps`, or a layout's text: a fragment has its own size. `tcprobe path --tile` and "
                "`tcprobe banks --tile` take a tile of memory."
            )
        return name
    if permute is not None and warps is None and not (is_written(name) and spelled(name).warps):
        raise UsageError("`permute` needs `warps`.")
    kind = kind if begins_layout(name) else None
    return with_options(name, over=text, of=kind, warps=warps, permute=permute)


def tiled_cell(
    name: str | Cell,
    tile: Sizes | None,
    warps: str | None,
    permute: str | None,
    arch: ArchName | None,
    folders: Layers,
    kind: str | None = None,
) -> tuple[Cell, Sizes | None]:
    """The table that a name means, and the tile in its rows and columns, where `tile` is one of memory.

    With warps the tile is MxNxK of the CTA, and the operand's part of it is left; a layout's text without a tile of its
    own is over this one.
    """
    named = tiled_name(name, tile, warps, permute, kind, needs_tile=False)
    cell = find_cell(named, arch, folders)
    if warps is not None:
        return cell, (cell.fragment.rows, cell.fragment.cols)
    return cell, tile


def find_cell(name: str | Cell, arch: ArchName | None, folders: Layers, memory: bool = False) -> Cell:
    """The table that a name means on an arch, or the table itself; what the name was taken for is noted.

    UsageError for a layout of memory, unless one is allowed.
    """
    from tcprobe.store import names

    if isinstance(name, Cell):
        if arch is not None and named(arch_name(arch) or "").name != name.arch:
            raise UsageError(f"the table is that of {name.arch}: give `arch` with a name, or not at all.")
        return name
    cell, remark = names.find_cell(word("name", name), arch_name(arch), folders)
    note(remark)
    if cell.in_memory and not memory:
        raise UsageError(f"{cell.fragment.id} is a layout of memory: here one of registers is needed.")
    return cell


def print_answer(
    answer: Any,
    as_json: bool,
    code: object = None,
    output: Path | None = None,
    function: str | None = None,
    namespace: str | None = None,
    source: str = "code",
    full: bool = False,
) -> None:
    """Print an answer: its JSON, its code where that is asked for or has a file to go to, or else its words.

    `source` names the answer's property that has the code; the words leave out what only `full` needs.
    """
    if as_json and (code or output):
        raise UsageError("`as_json` cannot be combined with `code` or `output`.")
    if not (code or output) and (function or namespace):
        raise UsageError("`function` and `namespace` are for code: give `code` or `output` too.")
    if code or output:
        print_code(getattr(answer, source), output, function, namespace)
    elif as_json:
        click.echo(json.dumps(answer.to_json()))
    else:
        terminal.lines(answer.in_full if full else answer.in_words)


def print_code(text: str, output: Path | None, function: str | None = None, namespace: str | None = None) -> None:
    """Code to a file, or to standard output; its struct by a name and in a namespace of the user's."""
    from tcprobe.code.names import in_namespace, rename
    from tcprobe.system import files

    struct = re.search(r"^struct (\w+)", text, re.MULTILINE)
    text = in_namespace(rename(text, struct[1] if struct else "", function), namespace)
    if output is None:
        click.echo(text, nl=False)
    else:
        files.write(output, text.encode())
        terminal.line(escaped(f"{output}: {len(text.splitlines())} lines"), err=True)
