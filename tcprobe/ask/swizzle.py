"""Swizzled shared memory: the layout behind an address map, images of offsets, maps of layouts by name, their banks."""

import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import click
import numpy as np

from tcprobe.errors import DataError, TcprobeError, UsageError
from tcprobe.fit.affine import Affine
from tcprobe.fit.swizzle import COORDINATE, SWIZZLE, XOR, AddressFit, fit_address, is_proven
from tcprobe.isa.arch import arch as arch_row
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.names import likely
from tcprobe.layout.address import AddressMap, runs, whole
from tcprobe.layout.address_files import read_address_map
from tcprobe.layout.banks import Picture, picture_lines, svg_of_picture
from tcprobe.layout.swizzle import MOST_BIT, Swizzle, SwizzleName, swizzle_named
from tcprobe.question import terminal, words
from tcprobe.question.answers import UNSET, Answer, UnsetType, plain
from tcprobe.question.arguments import ArchName, arch_name, checked
from tcprobe.question.declare import Option, PlainArgument, command, group, note
from tcprobe.question.options import Named, Number, Output, Sides, SwizzleType
from tcprobe.question.shared import JsonOption, OneArch, print_answer
from tcprobe.references.shared_memory import catalogue, tma
from tcprobe.references.shared_memory.catalogue import names_of
from tcprobe.references.shared_memory.claims import CLAIMS, SharedClaim
from tcprobe.system import files
from tcprobe.text import Described, Whole, escaped
from tcprobe.values import Json

if TYPE_CHECKING:
    from numpy.typing import NDArray


Numbers = list[int]  # of a swizzle: bits, base, shift


class FoundAnswer(Answer, kw_only=True):
    """The layout behind a table of offsets."""

    kind: str
    swizzle: Numbers | None
    unit: str
    shape: list[int | list[int]]
    stride: list[int | list[int]]
    base: int
    cells: int
    proven: bool
    others: list[Numbers]
    names: list[str]
    coordinate: tuple[int | str, ...] | UnsetType = UNSET
    swizzles: list[Numbers] | UnsetType = UNSET
    fewest: bool | UnsetType = UNSET
    bytes: Numbers | UnsetType | None = UNSET
    missing: list[str] | UnsetType = UNSET


@dataclass(frozen=True, repr=False)
class FoundLayout(Described):
    """The layout of an address map in elements; `bits` is the width of an element, if it is known."""

    address: AddressMap
    found: AddressFit
    names: list[str]
    bits: int | None

    @property
    def in_words(self) -> Iterator[str]:
        """The layout as CuTe writes it, what else fits, names, proof, and what is missing."""
        address, fit = self.address, self.found
        yield f"{fit.kind}: {expression(fit)}"
        if fit.kind == COORDINATE and fit.coordinate:
            which, bits, base, shift = fit.coordinate
            other = "second" if which == "first" else "first"
            yield f"with {which} ^= (({other} >> {shift}) & {(1 << bits) - 1}) << {base}"
        if fit.kind == SWIZZLE and self.bits and fit.swizzle:
            in_bytes = fit.swizzle.in_bytes(self.bits)
            yield f"in bytes: {in_bytes.name if in_bytes else 'it acts inside a byte'}"
        if fit.kind == XOR and not fit.fewest:
            yield "fewer swizzles may do: not all shorter sequences were tried"
        if fit.others:
            yield f"also fits: {', '.join(swizzle.name for swizzle in fit.others)}"
        if self.names:
            yield f"known as: {', '.join(self.names)}"
        yield f"proven on {fit.cells} of {address.shape[0] * address.shape[1]} elements"
        if address.missing:
            yield f"missing: {', '.join(runs(address.missing))}"

    def to_json(self) -> Json:
        """What docs/banks.md states; `missing` names the elements without an offset, if there are any."""
        address, fit = self.address, self.found
        modes = [fit.affine.first.to_json(), fit.affine.second.to_json()]
        in_bytes = fit.swizzle.in_bytes(self.bits) if fit.swizzle and self.bits else None
        answer = FoundAnswer.of(
            fit,
            swizzle=fit.swizzle.to_json() if fit.swizzle else None,
            unit="elements",
            shape=[shape for shape, _ in modes],
            stride=[stride for _, stride in modes],
            base=fit.affine.base,
            proven=is_proven(fit, address),
            others=[swizzle.to_json() for swizzle in fit.others],
            names=self.names,
            coordinate=tuple(fit.coordinate) if fit.coordinate else UNSET,
            swizzles=[swizzle.to_json() for swizzle in fit.swizzles] if fit.kind == XOR else UNSET,
            fewest=fit.fewest if fit.kind == XOR else UNSET,
            bytes=(in_bytes.to_json() if in_bytes else None) if self.bits else UNSET,
            missing=runs(address.missing) if address.missing else UNSET,
        )
        return plain(answer)


def layout_of(address_map: AddressMap, bits: int | None) -> FoundLayout:
    """The layout of a map that may lack elements; TcprobeError if it is none of the four kinds."""
    fit = fit_address(address_map)
    if fit is None:
        raise TcprobeError(
            f"{address_map.cells} elements, but no layout: neither shape:stride, nor a swizzle of one, nor a "
            "coordinate swizzle, nor several swizzles."
        )
    return FoundLayout(address_map, fit, names_of(address_map, fit, bits), bits)


def expression(fit: AddressFit) -> str:
    """CuTe's way of writing: Sw<2,3,3> o 0 o (32,32):(1,32)."""
    swizzles = "".join(f"{swizzle.name} o " for swizzle in reversed(fit.swizzles))
    base = f"{fit.affine.base} o " if fit.affine.base or swizzles else ""
    return f"{swizzles}{base}{_shape(fit.affine)}"


def _shape(affine: Affine) -> str:
    both = (affine.first, affine.second)
    return f"({','.join(_tuple(m.sizes) for m in both)}):({','.join(_tuple(m.strides) for m in both)})"


def _tuple(values: Sequence[int]) -> str:
    return str(values[0]) if len(values) == 1 else f"({','.join(map(str, values))})"


@checked
def swizzle(what: "str | NDArray[np.int64]", bits: int | None = None) -> "Swizzle | FoundLayout":
    """A swizzle by name, which maps offsets; of an array of offsets by [row, col] the layout behind it, proven.

    >>> import tcprobe
    >>> tcprobe.swizzle("3,4,3")(1024 + 16)
    1040
    """
    if isinstance(what, str):
        if bits is not None:
            raise UsageError("`bits` are those of the elements of an array; a swizzle by name maps any offsets.")
        return swizzle_named(what).swizzle
    if not isinstance(what, np.ndarray) or what.ndim != 2 or not what.size or what.dtype.kind not in "iu":
        raise UsageError("offsets are a NumPy array of whole numbers by [row, col].")
    if what.min() < 0 or (bits is not None and (bits < 1 or bits & (bits - 1) or bits > 128)):
        raise UsageError("offsets are 0 or more, in elements of 1, 2, 4 to 128 bits.")
    rows, cols = np.indices(what.shape)
    return layout_of(AddressMap.of(rows.ravel().tolist(), cols.ravel().tolist(), what.ravel().tolist()), bits)


# the questions

MOST_IMAGES, MOST_CELLS_DRAWN = 1 << 20, 1 << 14
INK = (17, 17, 17)  # on the light colours of banks, whatever the theme has as its black
ExtentOption = Annotated[
    tuple[int, int] | None, Option("--extent", "Extent of the tile in elements.", reads=Sides(2, "E0,E1"))
]
WIDTH = words.Kind(lambda text: (str(dtype(kind[0]).bits),) if (kind := words.TYPE.read(text)) else None)  # a type's
BitsOption = Annotated[
    int | None, Option("--bits", "Bits in an element: 1, 2, 4, ... 128.", "N", Number(1, 128), word=WIDTH)
]
TableOption = Annotated[
    int | None, Option("--table", "Table number N, from 1, of a file with several.", "N", Number(1))
]
StrideOption = Annotated[
    int | None, Option("--stride", "Leading stride in elements. Default: a packed tile's.", "S", Number(1))
]
BaseOption = Annotated[
    int | None, Option("--base", "For SWIZZLE_*: address of the box in shared memory. Default: 0.", "BYTES")
]

GROUP = group(
    short="Swizzled shared memory: layouts found, tables by name.",
    name="swizzle",
    text="Layouts of shared memory: which swizzle a table of offsets has, and the tables of layouts by name.",
)


def fit(
    file: Annotated[Path, PlainArgument("FILE", Named(path_type=Path, dir_okay=False))],
    *,
    bits: BitsOption = None,
    partial: Annotated[
        bool, Option("--partial", "Accept missing elements, as in a print-out that was cut off.")
    ] = False,
    table: TableOption = None,
) -> FoundLayout:
    """Find the layout behind FILE, and prove it on every element.

    FILE is a CSV of row,col,offset, a matrix of offsets (a line for each value of the first coordinate), or what
    CUTLASS's 03_visualize_layout prints; - is standard input. Offsets are in elements.
    """
    _check_bits(bits)
    source = read_address_map(file, table)
    note(source.note)
    try:
        return layout_of(source.address if partial else whole(source.address), bits)
    except DataError as error:
        raise DataError(f"{file}: {error} `partial` fits what is there.") from None


@command(fit, of=GROUP, short="The layout behind a table of offsets.", json=FoundAnswer)
def print_fit(found: FoundLayout, *, as_json: JsonOption = False) -> None:
    """The layout."""
    print_answer(found, as_json)


class ImagesAnswer(Answer):
    """Images of offsets."""

    images: list[int]


class SwizzleImages(NamedTuple):
    """Images of offsets from `first` on."""

    first: int
    images: list[int]

    @property
    def in_words(self) -> Iterator[str]:
        """A line an offset."""
        return (Whole(f"{offset} -> {image}") for offset, image in enumerate(self.images, self.first))

    def to_json(self) -> Json:
        return plain(ImagesAnswer.of(self))


def apply(
    named: Annotated[SwizzleName, PlainArgument("B,M,S", SwizzleType())], offsets: Annotated[str, PlainArgument("A..B")]
) -> SwizzleImages:
    """Print the images of the offsets A to B, both included, under Swizzle<B,M,S>.

    S may be negative, as in CuTe: low bits then change high ones.
    """
    match = re.fullmatch(r"([0-9]{1,18})(?:\.\.([0-9]{1,18}))?", offsets.strip())
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
    if not 0 <= last - first < MOST_IMAGES or last >> MOST_BIT:
        raise UsageError(f"{offsets!r} is not a range such as 0..63, of at most {MOST_IMAGES} offsets.")
    return SwizzleImages(first, [named.swizzle(offset) for offset in range(first, last + 1)])


@command(apply, of=GROUP, short="Where a swizzle moves offsets.", json=ImagesAnswer)
def print_apply(found: SwizzleImages, *, as_json: JsonOption = False) -> None:
    """The images."""
    print_answer(found, as_json)


class AddressMapAnswer(Answer):
    """The address map of a layout by name."""

    unit: str
    offsets: list[list[int | None]]


class NamedMap(NamedTuple):
    """The address map of a layout by name: offsets by [first, second], in elements or bytes."""

    unit: str
    offsets: "NDArray[np.int64]"

    @property
    def in_words(self) -> Iterator[str]:
        """A line for each value of the first coordinate."""
        return (Whole(", ".join(map(str, line))) for line in self.offsets.tolist())

    def to_json(self) -> Json:
        return plain(AddressMapAnswer(self.unit, self.offsets.T.tolist()))


class NamesAnswer(Answer):
    """The names of all layouts."""

    names: list[str]


class LayoutNames(NamedTuple):
    """Every layout that has a name."""

    names: list[str]

    @property
    def in_words(self) -> Iterator[str]:
        """A line a name."""
        return map(Whole, self.names)

    def to_json(self) -> Json:
        return plain(NamesAnswer.of(self))


def table(
    name: Annotated[str, PlainArgument("NAME", among="")],
    *,
    extent: ExtentOption = None,
    stride: StrideOption = None,
    bits: BitsOption = None,
    base: BaseOption = None,
    arch: OneArch = None,
) -> NamedMap | LayoutNames:
    """Print the address map of NAME: a CUTLASS 2.x layout, a CuTe atom, SWIZZLE_NONE|32B|64B|128B, or Sw<B,M,S>.

    From sm_100 on also SWIZZLE_128B_ATOM_32B, 128B_ATOM_32B_FLIP_8B and 128B_ATOM_64B. NAME help lists them all.

    The first coordinate is the one that the definition names first: contiguous, row, m or n, or the inner one of a box.
    As text, each line is one value of the first coordinate, as `fit` reads it. --json: {"unit", "offsets"}, lists over
    the first coordinate, one for each value of the second. Offsets are in elements; those of SWIZZLE_* in bytes.
    """
    if name == "help":
        return LayoutNames(list(catalogue.names()))
    options = _options(stride, bits, base, arch)
    if extent is None:
        of_pattern, widths = catalogue.pattern(name, options)
        if not likely.say(f"--extent {of_pattern[0]},{of_pattern[1]}"):
            raise UsageError("a table needs `extent` E0,E1.")
        extent, options = of_pattern, widths
    tabulated = catalogue.tabulate(name, extent, options)
    if mode := tma.resolve(name):
        stands_on = mode.stands_on(options.arch.name if options.arch else f"sm_{mode.least_arch}")
        note(f"{stands_on}." if stands_on else None)
    return NamedMap(tabulated.unit, tabulated.offsets)


@command(
    table, of=GROUP, short="The address map of a layout by name.", json={"": AddressMapAnswer, "help": NamesAnswer}
)
def print_table(found: NamedMap | LayoutNames, *, as_json: JsonOption = False) -> None:
    """The map, or all names."""
    print_answer(found, as_json)


class DrawnAnswer(Answer):
    """The bank of the first byte of each element."""

    bits: int
    banks: list[list[int | None]]


class BankDrawing(NamedTuple):
    """Offsets in elements of `bits` by [first, second], -1 where there is none; `what` they are of."""

    what: str
    offsets: "NDArray[np.int64]"
    bits: int

    @property
    def picture(self) -> Picture:
        """The banks as cells."""
        return Picture.of(self.offsets, self.bits)

    @property
    def title(self) -> str:
        """What is drawn, and along which axes."""
        lines, columns = self.picture.axes
        sides = " x ".join(map(str, self.offsets.shape))
        return escaped(
            f"{self.what}: banks of {sides} elements of {self.bits} bits; lines: {lines}, columns: {columns}"
        )

    def to_json(self) -> Json:
        """The bank of the first byte of each element, lists over the first coordinate."""
        banks = [[None if n < 0 else int(n) * self.bits // 32 % 32 for n in line] for line in self.offsets.T.tolist()]
        return plain(DrawnAnswer(self.bits, banks))


def draw(
    what: Annotated[str, PlainArgument("FILE|NAME", among="")],
    *,
    extent: Annotated[
        tuple[int, int] | None,
        Option("--extent", "With NAME: extent of the tile. Default: what its pattern takes.", reads=Sides(2, "E0,E1")),
    ] = None,
    stride: StrideOption = None,
    bits: BitsOption = None,
    base: BaseOption = None,
    arch: OneArch = None,
    table: TableOption = None,
) -> BankDrawing:
    """Draw the table of FILE, as `fit` reads it, or of NAME, as `table` has it: the banks of every element.

    Consecutive elements of up to 16 bytes are drawn as one cell; --svg writes the same as a picture.
    --json: the bank of the first byte of each element, lists over the first coordinate as `table` has them.
    """
    options = _options(stride, bits, base, arch)
    if extent or not (what == "-" or os.path.lexists(what)):
        if table is not None:
            raise UsageError(f"`table` {table} needs a file; {what} with `extent` is one table.")
        offsets, width = _tabulate(what, extent, options)
    else:
        if (stride, base, arch) != (None, None, None):
            raise UsageError("`stride`, `base` and `arch` apply to a layout's name, not to a file.")
        offsets, width = read_address_map(Path(what), table).address.grid, bits
    if not width:
        raise UsageError("banks depend on the width of an element: give `bits` N.")
    if offsets.size > MOST_CELLS_DRAWN:
        raise UsageError(f"{offsets.size} elements; at most {MOST_CELLS_DRAWN} are drawn.")
    return BankDrawing(what, offsets, width)


@command(draw, of=GROUP, short="Draw a table by its banks.", json=DrawnAnswer)
def print_draw(
    found: BankDrawing,
    *,
    svg: Annotated[
        Path | None, Option("--svg", "Write an SVG.", "FILE", Output(path_type=Path, dir_okay=False))
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """The banks as JSON, as a file of SVG, or in colours."""
    if as_json:
        click.echo(json.dumps(found.to_json()))
    elif svg:
        files.write(svg, svg_of_picture(found.picture, found.title).encode())
        click.echo(escaped(f"written: {svg}"))
    else:
        click.echo(found.title)
        for pieces in picture_lines(found.picture, shutil.get_terminal_size().columns):
            click.echo("".join(text if c is None else click.style(text, fg=INK, bg=c) for text, c in pieces))


def claims() -> Sequence[SharedClaim]:
    """Print what documents claim of shared-memory layouts, with a verdict by arithmetic on their tables."""
    return CLAIMS


class ClaimAnswer(Answer):
    """A claim and whether it holds, one object per line."""

    source: str
    claim: str
    holds: bool
    because: str


@command(claims, of=GROUP, short="What documents claim about these layouts.", json=ClaimAnswer)
def print_claims(found: Sequence[SharedClaim], *, as_json: JsonOption = False) -> None:
    """A line, or a JSON object, each."""
    for claim in found:
        if as_json:
            click.echo(json.dumps(plain(ClaimAnswer.of(claim, claim=claim.words, holds=claim.holds()))))
        else:
            terminal.lines((claim.source, f"  {claim.words}", f"  {claim.verdict}"))


def _tabulate(
    what: str, extent: tuple[int, int] | None, options: catalogue.Options
) -> "tuple[NDArray[np.int64], int | None]":
    """A layout by name; without an extent what its pattern takes, in bytes where no width is said."""
    if extent is None:
        extent, options = catalogue.pattern(what, options)
    tabulated = catalogue.tabulate(what, extent, options)
    offsets, bits = tabulated.offsets, tabulated.bits
    return (offsets // (bits // 8), bits) if tabulated.unit == catalogue.BYTES and bits else (offsets, bits)


def _options(stride: int | None, bits: int | None, base: int | None, name: ArchName | None) -> catalogue.Options:
    _check_bits(bits)
    text = arch_name(name)
    return catalogue.Options(stride, bits, base, arch_row(text) if text else None)


def _check_bits(bits: int | None) -> None:
    if bits is not None and bits & (bits - 1):
        raise UsageError(f"`bits` {bits}: an element has 1, 2, 4, 8, 16, 32, 64 or 128.")
