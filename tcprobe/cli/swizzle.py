"""tcprobe swizzle: the layout of an address map, images of offsets, address maps by name, and their picture."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tcprobe.errors import DataError, UsageError
from tcprobe.question import wrapping
from tcprobe.question.grouping import Suggesting
from tcprobe.question.options import JSON, Given, Named, Number, Output, Sides, SwizzleType
from tcprobe.system import files
from tcprobe.text import escaped

if TYPE_CHECKING:
    from typing import Unpack

    import numpy as np
    from numpy.typing import NDArray

    from tcprobe.cli.requests import LayoutRequest
    from tcprobe.layout.swizzle import SwizzleName
    from tcprobe.references.shared_memory.catalogue import Options

MOST_IMAGES, MOST_CELLS_DRAWN = 1 << 20, 1 << 14
INK = (17, 17, 17)  # on the light colours of banks, whatever the theme has as its black


BITS = click.option("--bits", type=Number(1, 128), metavar="N", help="Bits in an element: 1, 2, 4, ... 128.")
TABLE = click.option("--table", type=Number(1), metavar="N", help="Table number N, from 1, of a file with several.")
PARTIAL = click.option("--partial", is_flag=True, help="Accept missing elements, as in a print-out that was cut off.")
STRIDE = click.option(
    "--stride", type=Number(1), metavar="S", help="Leading stride in elements. Default: a packed tile's."
)
BASE = click.option(
    "--base", type=Number(), metavar="BYTES", help="For SWIZZLE_*: address of the box in shared memory. Default: 0."
)
ARCH = click.option("--arch", type=Given(), metavar="sm_XX", help="Compute capability, for example sm_90.")


@click.group(cls=Suggesting, short_help="Swizzled shared memory: layouts found, tables by name.")
def swizzle() -> None:
    """Layouts of shared memory: which swizzle a table of offsets has, and the tables of layouts by name."""


@swizzle.command(short_help="The layout behind a table of offsets.")
@click.argument("file", type=Named(path_type=Path, dir_okay=False))
@BITS
@PARTIAL
@TABLE
@JSON
def fit(file: Path, bits: int | None, partial: bool, table: int | None, as_json: bool) -> None:
    """Find the layout behind FILE, and prove it on every element.

    FILE is a CSV of row,col,offset, a matrix of offsets (a line for each value of the first coordinate), or what
    CUTLASS's 03_visualize_layout prints; - is standard input. Offsets are in elements.
    """
    from tcprobe.ask import swizzle as ask
    from tcprobe.layout.address import whole
    from tcprobe.layout.address_files import read_address_map

    _check_bits(bits)
    source = read_address_map(file, table)
    if source.note:
        click.echo(source.note, err=True)
    try:
        answer = ask.layout_of(source.address if partial else whole(source.address), bits)
    except DataError as error:
        raise DataError(f"{file}: {error} --partial fits what is there.") from None
    if as_json:
        click.echo(json.dumps(ask.as_json(answer)))
        return
    wrapping.lines(answer.in_words)


@swizzle.command(short_help="Where a swizzle moves offsets.")
@click.argument("named", metavar="B,M,S", type=SwizzleType())
@click.argument("offsets", metavar="A..B")
@JSON
def apply(named: SwizzleName, offsets: str, as_json: bool) -> None:
    """Print the images of the offsets A to B, both included, under Swizzle<B,M,S>.

    S may be negative, as in CuTe: low bits then change high ones.
    """
    from tcprobe.layout.swizzle import MOST_BIT

    match = re.fullmatch(r"([0-9]{1,18})(?:\.\.([0-9]{1,18}))?", offsets.strip())
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
    if not 0 <= last - first < MOST_IMAGES or last >> MOST_BIT:
        raise UsageError(f"{offsets!r} is not a range such as 0..63, of at most {MOST_IMAGES} offsets.")
    images = [named.swizzle(offset) for offset in range(first, last + 1)]
    if as_json:
        click.echo(json.dumps({"images": images}))
        return
    for offset, image in enumerate(images, first):
        click.echo(f"{offset} -> {image}")


@swizzle.command("table", short_help="The address map of a layout by name.")
@click.argument("name")
@click.option("--extent", type=Sides(2, "E0,E1"), help="Extent of the tile in elements.")
@STRIDE
@BITS
@BASE
@ARCH
@JSON
def table_(name: str, extent: tuple[int, int] | None, as_json: bool, **request: Unpack[LayoutRequest]) -> None:
    """Print the address map of NAME: a CUTLASS 2.x layout, a CuTe atom, SWIZZLE_NONE|32B|64B|128B, or Sw<B,M,S>.

    From sm_100 on also SWIZZLE_128B_ATOM_32B, 128B_ATOM_32B_FLIP_8B and 128B_ATOM_64B. NAME help lists them all.

    The first coordinate is the one that the definition names first: contiguous, row, m or n, or the inner one of a box.
    As text, each line is one value of the first coordinate, as `fit` reads it. --json: {"unit", "offsets"}, lists over
    the first coordinate, one for each value of the second. Offsets are in elements; those of SWIZZLE_* in bytes.
    """
    from tcprobe.references.shared_memory import tma
    from tcprobe.references.shared_memory.catalogue import names, tabulate

    if name == "help":
        click.echo(json.dumps({"names": list(names())}) if as_json else "\n".join(names()))
        return
    if extent is None:
        raise UsageError("a table needs --extent E0,E1.")
    options = _options(request)
    tabulated = tabulate(name, extent, options)
    if mode := tma.resolve(name):
        note = mode.stands_on(options.arch.name if options.arch else f"sm_{mode.least_arch}")
        if note:
            click.echo(f"{note}.", err=True)
    if as_json:
        click.echo(json.dumps({"unit": tabulated.unit, "offsets": tabulated.offsets.T.tolist()}))
        return
    for line in tabulated.offsets.tolist():
        click.echo(", ".join(map(str, line)))


@swizzle.command(short_help="Draw a table by its banks.")
@click.argument("what", metavar="FILE|NAME")
@click.option(
    "--extent", type=Sides(2, "E0,E1"), help="With NAME: extent of the tile. Default: what its pattern takes."
)
@STRIDE
@BITS
@BASE
@ARCH
@TABLE
@click.option("--svg", type=Output(path_type=Path, dir_okay=False), metavar="FILE", help="Write an SVG.")
@JSON
def draw(
    what: str,
    extent: tuple[int, int] | None,
    table: int | None,
    svg: Path | None,
    as_json: bool,
    **request: Unpack[LayoutRequest],
) -> None:
    """Draw the table of FILE, as `fit` reads it, or of NAME, as `table` has it: the banks of every element.

    Consecutive elements of up to 16 bytes are drawn as one cell; --svg writes the same as a picture.
    --json: the bank of the first byte of each element, lists over the first coordinate as `table` has them.
    """
    from tcprobe.layout.banks import Picture, picture_lines, svg_of_picture

    offsets, bits = _offsets_to_draw(what, extent, table, _options(request))
    if offsets.size > MOST_CELLS_DRAWN:
        raise UsageError(f"{offsets.size} elements; at most {MOST_CELLS_DRAWN} are drawn.")
    if as_json:
        banks = [[None if n < 0 else int(n) * bits // 32 % 32 for n in line] for line in offsets.T.tolist()]
        click.echo(json.dumps({"bits": bits, "banks": banks}))
        return
    picture = Picture.of(offsets, bits)
    title = f"{what}: banks of {offsets.shape[0]} x {offsets.shape[1]} elements of {bits} bits"
    title = escaped(f"{title}; lines: {picture.axes[0]}, columns: {picture.axes[1]}")
    if svg:
        files.write(svg, svg_of_picture(picture, title).encode())
        click.echo(escaped(f"written: {svg}"))
        return
    click.echo(title)
    for pieces in picture_lines(picture, shutil.get_terminal_size().columns):
        click.echo("".join(text if c is None else click.style(text, fg=INK, bg=c) for text, c in pieces))


@swizzle.command(short_help="What documents claim about these layouts.")
@JSON
def claims(as_json: bool) -> None:
    """Print what documents claim of shared-memory layouts, with a verdict by arithmetic on their tables."""
    from tcprobe.references.shared_memory.claims import CLAIMS

    for claim in CLAIMS:
        if as_json:
            plain = {"source": claim.source, "claim": claim.words, "holds": claim.holds(), "because": claim.because}
            click.echo(json.dumps(plain))
        else:
            for text in (claim.source, f"  {claim.words}", f"  {claim.verdict}"):
                wrapping.line(text)


def _offsets_to_draw(
    what: str, extent: tuple[int, int] | None, table: int | None, options: Options
) -> tuple[NDArray[np.int64], int]:
    """Offsets in elements by [first, second], -1 where there is none, and the bits of an element."""
    from tcprobe.layout.address_files import read_address_map

    if extent or not (what == "-" or os.path.lexists(what)):
        if table is not None:
            raise UsageError(f"--table {table} needs a file; {what} with --extent is one table.")
        offsets, bits = _tabulate(what, extent, options)
    else:
        if (options.stride, options.base, options.arch) != (None, None, None):
            raise UsageError("--stride, --base and --arch apply to a layout's name, not to a file.")
        offsets, bits = read_address_map(Path(what), table).address.grid, options.bits
    if not bits:
        raise UsageError("banks depend on the width of an element: give --bits N.")
    return offsets, bits


def _tabulate(what: str, extent: tuple[int, int] | None, options: Options) -> tuple[NDArray[np.int64], int | None]:
    """A layout by name; without an extent what its pattern takes, in bytes where no width is said."""
    from tcprobe.references.shared_memory.catalogue import BYTES, pattern, tabulate

    if extent is None:
        extent, options = pattern(what, options)
    tabulated = tabulate(what, extent, options)
    offsets, bits = tabulated.offsets, tabulated.bits
    return (offsets // (bits // 8), bits) if tabulated.unit == BYTES and bits else (offsets, bits)


def _options(layout_request: LayoutRequest) -> Options:
    from tcprobe.isa import arch as archs
    from tcprobe.references.shared_memory.catalogue import Options

    _check_bits(layout_request["bits"])
    arch = archs.arch(layout_request["arch"]) if layout_request["arch"] else None
    return Options(layout_request["stride"], layout_request["bits"], layout_request["base"], arch)


def _check_bits(bits: int | None) -> None:
    if bits is not None and bits & (bits - 1):
        raise UsageError(f"--bits {bits}: an element has 1, 2, 4, 8, 16, 32, 64 or 128.")


COMMANDS = (swizzle,)
