"""Options that several questions have, and how answers are found and printed: the same everywhere."""

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import click

from tcprobe.errors import UsageError
from tcprobe.isa.arch import arch as named
from tcprobe.question import options, terminal
from tcprobe.question.arguments import ArchName, PlaceName, Sizes, arch_name, place, sizes, word
from tcprobe.question.declare import Option, note
from tcprobe.question.options import Named, NonEmptyText
from tcprobe.store.cell import Cell
from tcprobe.store.choose import Layers
from tcprobe.text import escaped


def output_option(words: str) -> Option:
    """The option of a file to write."""
    return Option("--output", words, reads=options.Output(path_type=Path, dir_okay=False), letter="-o")


OutputOption = Annotated[Path | None, output_option("File for the code.")]
ArchOption = Annotated[
    ArchName | None,
    Option("--arch", "Compute capability: sm_90; or several: sm_70,h100.", "sm_XX[,...]", NonEmptyText()),
]
OneArch = Annotated[
    ArchName | None, Option("--arch", "Compute capability, for example sm_90.", "sm_XX", NonEmptyText())
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
JsonOption = Annotated[bool, Option("--json", "JSON for other programs.")]
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
    Option("--global", "What is contiguous in memory: rows (row-major) or columns.", default="row"),
]
SharedOption = Annotated[
    PlaceName | None,
    Option(
        "--shared",
        "Layout of lines: plain (the default), pad:BYTES, boxes:BYTES, or a swizzle: 128 (SWIZZLE_128B), which means "
        "the boxes of that mode, or sw:B,M,S of byte offsets.",
        "PLACE",
        NonEmptyText(),
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


def find_cell(name: str | Cell, arch: ArchName | None, folders: Layers) -> Cell:
    """The table that a name means on an arch, or the table itself; what the name was taken for is noted."""
    from tcprobe.store import names

    if isinstance(name, Cell):
        if arch is not None and named(arch_name(arch) or "").name != name.arch:
            raise UsageError(f"the table is that of {name.arch}: give `arch` with a name, or not at all.")
        return name
    cell, remark = names.find_cell(word("name", name), arch_name(arch), folders)
    note(remark)
    return cell


def print_answer(
    answer: Any,
    as_json: bool,
    code: object = None,
    output: Path | None = None,
    function: str | None = None,
    namespace: str | None = None,
    source: str = "code",
) -> None:
    """Print an answer: its JSON, its code where that is asked for or has a file to go to, or else its words.

    `source` names the answer's property that has the code.
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
        terminal.lines(answer.in_words)


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
