"""The question `agree`: two ways of touching the same bytes, element by element, and the change that makes them agree.

>>> found = agree("tma:bf16,64x64,128B", "ldmatrix:mma m16n8k16 bf16 a,64x64,plain")
>>> found.agree, found.different, found.first
(False, 3584, Different(row=1, col=0, writer=144, reader=128))
>>> found.change.text, found.change.whose
('ldmatrix:mma m16n8k16 bf16 a,64x64,128B', 'reader')

Each way is a map from elements (row, col) to bytes, worked out for every element; a change is tried the same way.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import click
import numpy as np

from tcprobe.ask.banks.accesses import Shared, Tile, bits_of, parse_shared, parse_tile
from tcprobe.errors import DataError, UsageError, answer_or_none
from tcprobe.isa.shared_memory import MATRIX_ROW
from tcprobe.isa.tensor_map import DATA_TYPE_OF
from tcprobe.layout.arrays import Ints
from tcprobe.layout.swizzle import sizes_written, swizzle_named, type_named
from tcprobe.question import terminal
from tcprobe.question.answers import Answer, plain
from tcprobe.question.arguments import checked, place, word
from tcprobe.question.declare import PlainArgument, command
from tcprobe.question.options import NonEmptyText
from tcprobe.question.shared import JsonOption, OneArch, OnlyOption, ResultsOption, find_cell
from tcprobe.question.terminal import BAD, GOOD, Styled
from tcprobe.references.shared_memory.tensor_map import broken_rules, packed_map
from tcprobe.store.choose import Layers, layers
from tcprobe.text import Described, quoted
from tcprobe.values import Json

MOST_ELEMENTS = 1 << 22  # of a matrix whose bytes are compared
MOST_SIDE = 1 << 20
MODES = ("plain", "32B", "64B", "128B")
TRIED = (*MODES, *(f"sw:{b},4,3" for b in (1, 2, 3)), *(f"pad:{n}" for n in (16, 8, 4, 32, 64, 128)))
# bytes that an address is a multiple of, where it is more than an element's
WHOLE = {"tma": 16, "cp.async": 4, "ldmatrix": MATRIX_ROW, "stmatrix": MATRIX_ROW}
SWIZZLES = [f"sw:{b},{m},{s}" for b in (1, 2, 3) for m in (3, 4, 5) for s in range(b, 6) if (m, s) != (4, 3)]
SPELLINGS = (
    "tma:TYPE,RxC,SWIZZLE; cp.async:TYPE,RxC,PLACE; stmatrix, ldmatrix, st.shared or ld.shared:FRAGMENT,RxC,PLACE; "
    "desc:TYPE,RxC,MAJOR,SWIZZLE; scales:NAME,RxC; numpy:TYPE,RxC,EXPR; map:FILE.csv"
)
# Scale factors of `lines` rows x `blocks`, one byte each unless they are f32. Sources: CUTLASS's SfAtom is
# references.tensor_memory's; the others as in tests/data/agree.csv, where each has its file and line.
SCALES = {
    "linear": "row after row, as mma.sync with block scales reads them from memory",
    "sfatom": "CUTLASS's SfAtom, 128 x 4 in 512 bytes, as tcgen05 takes them",
    "8x4": "atoms of 8 x 4, as TensorRT-LLM and FlashInfer swizzle for few rows",
    "mn": "block after block, rows contiguous and filled up to 16 bytes, as a tensor map needs",
    "mn.f32": "the same of f32, as DeepGEMM's for sm_90",
    "packed": "four blocks in a word, words block after block, rows contiguous: DeepGEMM's ue8m0",
}
ALSO = {"row": "linear", "cutlass": "sfatom", "128x4": "sfatom", "sm100": "sfatom", "swizzled": "sfatom", "col": "mn"}


class Different(NamedTuple):
    """An element, and the byte where each side has it, None where it has it nowhere."""

    row: int
    col: int
    writer: int | None
    reader: int | None


class Change(NamedTuple):
    """Another spelling of one side, `whose`, with which both agree, and what is other about it."""

    whose: Literal["reader", "writer"]
    text: str
    words: str


class AgreementAnswer(Answer):
    """Whether a writer and a reader touch the same bytes; `first` in row-major order, in byte offsets."""

    agree: bool
    different: int
    first: Different | None
    elements: int
    bytes: int
    writer: str
    reader: str
    change: Change | None


@dataclass(frozen=True, repr=False)
class Agreement(Described):
    """Of `elements`, `different` lie elsewhere; the `first` of them in row-major order, and the nearest `change`."""

    writer: "Side"
    reader: "Side"
    different: int
    first: Different | None
    change: Change | None

    @property
    def agree(self) -> bool:
        """Whether every element is at the same bytes."""
        return not self.different

    @property
    def elements(self) -> int:
        """Of the matrix."""
        return self.writer.rows * self.writer.cols

    @property
    def bytes(self) -> int:
        """Of all elements."""
        return self.elements * self.writer.bits // 8

    @property
    def in_words(self) -> Iterator[str]:
        """Whether they agree, the first difference, how many there are, what would make them agree."""
        yield f"writer {self.writer.text}: {self.writer.words}"
        yield f"reader {self.reader.text}: {self.reader.words}"
        size = f"{self.writer.rows} x {self.writer.cols} elements of {self.writer.bits} bits"
        if self.first is None:
            yield Styled(f"agree: all {self.bytes} bytes, {size}", "agree", **GOOD)
            return
        yield Styled(f"differ: {self.different} of {size}", "differ", **BAD)
        row, col, *sides = self.first
        writer, reader = ("nowhere" if side is None else f"at byte {side}" for side in sides)
        yield f"first: element [{row}][{col}], which the writer has {writer}, the reader {reader}"
        if self.change:
            yield f"they agree with {self.change.words}: {self.change.whose} {self.change.text}"
        else:
            yield "no other swizzle, major, order or pitch that was tried makes them agree"

    @property
    def answer(self) -> AgreementAnswer:
        """What `--json` prints."""
        return AgreementAnswer.of(self, writer=self.writer.text, reader=self.reader.text)

    def to_json(self) -> Json:
        """Plain data."""
        return plain(self.answer)


@dataclass(frozen=True)
class Side:
    """One way of touching a matrix: its spelling in parts, and where each element is; `parts` are those after RxC."""

    kind: str
    of: str
    rows: int
    cols: int
    bits: int
    parts: tuple[str, ...]
    bytes_of: Callable[["Side"], Ints]
    words_of: Callable[["Side"], str]
    changes_of: Callable[["Side"], Iterator[tuple[str, tuple[str, ...]]]]

    @property
    def text(self) -> str:
        """The spelling."""
        if self.kind == "map":
            return f"map:{self.of}"
        if self.kind == "scales":
            return f"scales:{self.parts[0]},{self.rows}x{self.cols}"
        quote = '"' if "," in self.of else ""
        return f"{self.kind}:{quote}{self.of}{quote},{self.rows}x{self.cols}" + "".join(
            f",{part}" for part in self.parts
        )

    @property
    def words(self) -> str:
        """What that is, in words."""
        return self.words_of(self)

    @cached_property
    def at(self) -> Ints:
        """The bit of each element, (rows, cols); -1 where it is nowhere. UsageError where that cannot be."""
        return self.bytes_of(self)

    def changes(self) -> Iterator[tuple[str, "Side"]]:
        """Other spellings, near ones first, each with what is other about it."""
        for words, parts in self.changes_of(self):
            if parts != self.parts:
                yield words, replace(self, parts=parts)


@checked
def agree(
    writer: Annotated[str, PlainArgument("WRITER", NonEmptyText())],
    reader: Annotated[str, PlainArgument("READER", NonEmptyText())],
    *,
    arch: OneArch = None,
    results: ResultsOption = None,
    only: OnlyOption = False,
) -> "Agreement":
    """Say whether WRITER and READER touch the same bytes: where each puts every element, the first that differs, and
    the nearest change with which they agree. Exit code 1 if they differ.

    Each is one of tma:TYPE,RxC,SWIZZLE, cp.async:TYPE,RxC,PLACE, stmatrix:FRAGMENT,RxC,PLACE (ldmatrix, st.shared,
    ld.shared too), desc:TYPE,RxC,MAJOR,SWIZZLE, scales:NAME,RxC, numpy:TYPE,RxC,EXPR and map:FILE.csv (row,col,byte).
    RxC are rows and columns of the matrix. PLACE is plain, pad:BYTES or a swizzle as for `banks`, with ,col after it
    where columns are the lines of memory.
    """
    folders = layers(results, only)

    def read(text: str) -> Side:
        return read_side(text, arch, folders)

    return compared(read(word("writer", writer)), read(word("reader", reader)), read)


@command(agree, short="Whether a writer and a reader touch the same bytes.", json=AgreementAnswer)
def print_agree(found: Agreement, *, as_json: JsonOption = False) -> None:
    """Words or JSON; the exit code says whether they agree."""
    if as_json:
        click.echo(json.dumps(found.to_json()))
    else:
        terminal.lines(found.in_words)
    sys.exit(0 if found.agree else 1)


def compared(writer: Side, reader: Side, read: Callable[[str], Side]) -> Agreement:
    """Both maps, element by element; `read` gives what a spelling means. UsageError where they are of two matrices."""
    if (writer.rows, writer.cols) != (reader.rows, reader.cols):
        raise UsageError(
            f"the writer has {writer.rows} x {writer.cols} elements, the reader {reader.rows} x {reader.cols}: "
            "both are written in rows and columns of the same matrix."
        )
    if writer.bits and reader.bits and writer.bits != reader.bits:
        raise UsageError(f"elements of {writer.bits} bits are written, and elements of {reader.bits} bits read.")
    if not writer.bits or not reader.bits:  # a file says bytes alone
        bits = writer.bits or reader.bits or 8
        writer, reader = (replace(side, bits=bits) for side in (writer, reader))
    wrong = np.flatnonzero(writer.at.ravel() != reader.at.ravel())
    if not len(wrong):
        return Agreement(writer, reader, 0, None, None)
    row, col = divmod(int(wrong[0]), writer.cols)
    first = Different(row, col, *(_byte(side, row, col) for side in (writer, reader)))
    return Agreement(writer, reader, len(wrong), first, _change(writer, reader, read))


def _byte(side: Side, row: int, col: int) -> int | None:
    bit = int(side.at[row, col])
    return None if bit < 0 else bit // 8


def _change(writer: Side, reader: Side, read: Callable[[str], Side]) -> Change | None:
    """The first spelling of the reader, else of the writer, with which all bytes agree when it is read as a user's."""
    sides: Sequence[tuple[Literal["reader", "writer"], Side, Side]] = [
        ("reader", reader, writer),
        ("writer", writer, reader),
    ]
    for whose, side, other in sides:
        for words, changed in (*side.changes(), *_pitches(side, other)):
            if _same(changed, other) and _same(_accepted(changed.text, read), other):
                return Change(whose, changed.text, words)
    return None


def _accepted(text: str, read: Callable[[str], Side]) -> Side | None:
    return answer_or_none(lambda: read(text))


def _same(changed: Side | None, other: Side) -> bool:
    at = answer_or_none(lambda: changed.at) if changed else None
    return at is not None and bool((at == other.at).all())


def _pitches(side: Side, other: Side) -> Iterator[tuple[str, Side]]:
    """A padding that gives the distance of the other's lines."""
    if side.bytes_of is not _placed or min(side.rows, side.cols) < 2:
        return
    for words, turned, apart, length in (
        ("another pitch", (), int(other.at[1, 0] - other.at[0, 0]), side.cols),
        ("columns contiguous, and another pitch", ("col",), int(other.at[0, 1] - other.at[0, 0]), side.rows),
    ):
        padding, rest = divmod(apart - length * side.bits, 8)
        if padding > 0 and not rest:
            yield words, replace(side, parts=(f"pad:{padding}", *turned))


# the sides
def read_side(text: str, arch: object, folders: Layers) -> Side:
    """What a spelling means; UsageError where it means nothing."""
    kind, colon, rest = text.strip().partition(":")
    if not colon or kind not in _READERS:
        raise UsageError(f"{quoted(text)} is none of {SPELLINGS}.")
    if kind == "map":
        return _map_side(rest)
    return _READERS[kind](kind, rest, arch, folders)


def _sizes(text: str, whole: str) -> tuple[int, int]:
    rows, cols = sizes_written(text, 2)
    if not 0 < min(rows, cols) <= max(rows, cols) <= MOST_SIDE or rows * cols > MOST_ELEMENTS:
        raise UsageError(f"{quoted(whole)}: {text[:40]} is not RxC, of at most {MOST_ELEMENTS} elements.")
    return rows, cols


def _split(rest: str, least: int, spelling: str) -> list[str]:
    """Parts between commas that are in no brackets and no quotes, at least so many."""
    parts, depth, quote = [""], 0, ""
    for letter in rest:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in "([{<":
            depth += 1
        elif letter in ")]}>":
            depth -= 1
        if letter == "," and not depth and not quote:
            parts.append("")
        elif letter not in "\"'":
            parts[-1] += letter
    if quote or depth or len(parts) < least or not all(part.strip() for part in parts[:least]):
        raise UsageError(f"{quoted(rest)} is not {spelling}.")
    return [part.strip() for part in parts]


def _type(text: str) -> tuple[str, int]:
    name = type_named(text)
    return name, bits_of(name)


def _tma(kind: str, rest: str, _arch: object, _folders: Layers) -> Side:
    spelling = "TYPE,RxC,SWIZZLE, such as bf16,64x64,128B"
    of, size, *more = _split(rest, 3, spelling)
    name, bits = _type(of)
    rows, cols = _sizes(size, rest)
    side = Side(kind, name, rows, cols, bits, (_mode(",".join(more)),), _boxes, _place_words, _other_modes)
    side.at  # noqa: B018  # which refuses what cannot be
    return side


def _mode(text: str) -> str:
    """A mode in its one spelling; UsageError where no mode does the same."""
    span = 0 if text == "plain" else swizzle_named(text).span
    return f"{span}B" if span else "plain"


def _boxes(side: Side) -> Ints:
    """Boxes as wide as the swizzle and as high as the tile, side by side, if a tensor map can have them.

    A type that no map has is copied as bytes, whole ones of a line.
    """
    mode, row_bytes = side.parts[0], side.cols * side.bits // 8
    span = 0 if mode == "plain" else int(mode.removesuffix("B"))
    kind, bits = (DATA_TYPE_OF[side.of], side.bits) if side.of in DATA_TYPE_OF else ("UINT8", 8)
    box = (min(row_bytes, span or row_bytes) * 8 // bits, side.rows)
    padding = -box[0] * bits // 8 % 16  # of the tensor's lines, which may be longer than the box's
    if wrong := broken_rules(packed_map(kind, box, box, "NONE" if mode == "plain" else mode, padding)):
        reasons = "; ".join(f"{rule.argument} {rule.words} ({rule.source})" for rule in wrong)
        raise UsageError(f"{side.text}: the driver refuses a map of boxes of {box[0]} x {box[1]}: {reasons}.")
    return _placed(side)


def _cp_async(kind: str, rest: str, _arch: object, _folders: Layers) -> Side:
    of, size, *more = _split(rest, 3, "TYPE,RxC,PLACE, such as bf16,64x64,128B")
    name, bits = _type(of)
    return _with_place(kind, name, bits, size, more, rest)


def _access(kind: str, rest: str, arch: object, folders: Layers) -> Side:
    of, size, *more = _split(rest, 3, "FRAGMENT,RxC,PLACE, such as mma m16n8k16 bf16 a,64x64,128B")
    cell = find_cell(of, arch, folders)  # type: ignore[arg-type]
    bits = cell.fragment.slot_bits
    side = _with_place(kind, of, bits, size, more, rest)
    if side.rows % cell.fragment.rows or side.cols % cell.fragment.cols:
        raise UsageError(
            f"{cell.fragment.id} is {cell.fragment.rows} x {cell.fragment.cols}; "
            f"{side.rows} x {side.cols} is not a whole "
            "number of them."
        )
    if kind in ("ldmatrix", "stmatrix"):
        from tcprobe.ask.banks.accesses import matrix_ways, slots_of

        tile = _tile(side)
        if cell.table.threads == 32 and not matrix_ways(slots_of(cell), tile):
            raise UsageError(
                f"{kind}: with {tile.contiguous}s contiguous a register of {cell.fragment.id} "
                "is not an 8 x 8 matrix of b16."
            )
    return side


def _with_place(kind: str, of: str, bits: int, size: str, more: Sequence[str], rest: str) -> Side:
    turned = ("col",) if more[-1] == "col" else ()
    plain = list(more[:-1]) if more[-1] in ("row", "col") else list(more)
    rows, cols = _sizes(size, rest)
    side = Side(kind, of, rows, cols, bits, (_short(",".join(plain)), *turned), _placed, _place_words, _other_places)
    side.at  # noqa: B018  # which refuses what cannot be
    return side


def _short(text: str) -> str:
    """A place in its one spelling, modes as 128B."""
    spelled = place(text) if text else ""
    match = re.fullmatch(r"SWIZZLE_(32|64|128)B", spelled)
    return f"{match[1]}B" if match else "plain" if spelled == "SWIZZLE_NONE" else spelled


def _tile(side: Side) -> Tile:
    contiguous = "col" if side.parts[-1:] == ("col",) else "row"
    name = f"b{side.bits}" if side.bits in (8, 16, 32, 64) else "e2m1" if side.bits == 4 else "b1"
    return parse_tile(f"{side.rows}x{side.cols}", name, contiguous, side.bits)


def _placed(side: Side) -> Ints:
    tile, shared = _tile(side), parse_shared(side.parts[0])
    shared.check(tile)
    if side.kind in WHOLE and shared.swizzle[0] and shared.swizzle[1] < 4:
        raise UsageError(f"{side.text}: {shared} moves parts of 16 bytes, which {side.kind} writes and reads whole.")
    if shared.pitch(tile) % (whole := WHOLE.get(side.kind) or max(1, side.bits // 8)):
        raise UsageError(
            f"{side.text}: lines are {shared.pitch(tile)} bytes apart; {side.kind} needs multiples of {whole} bytes."
        )
    row, col = np.mgrid[0 : side.rows, 0 : side.cols]
    line, inner = (row, col) if tile.contiguous == "row" else (col, row)
    bit = inner * side.bits
    at: Ints = shared.offset(tile, line, bit // 8) * 8 + bit % 8
    return at


def _place_words(side: Side) -> str:
    tile, shared = _tile(side), parse_shared(side.parts[0])
    lines = "rows" if tile.contiguous == "row" else "columns"
    return f"{lines} of {tile.line_bytes} bytes, {_shared_words(shared, tile)}"


def _shared_words(shared: Shared, tile: Tile) -> str:
    blocks = shared.blocks(tile)
    cut = f" in {blocks} boxes of {shared.block} bytes per row" if blocks > 1 else ""
    return f"{shared}{cut}, {shared.pitch(tile)} bytes apart"


def _other_modes(side: Side) -> Iterator[tuple[str, tuple[str, ...]]]:
    for mode in MODES:
        yield f"swizzle {mode}" if mode != "plain" else "no swizzle", (mode,)


def _other_places(side: Side) -> Iterator[tuple[str, tuple[str, ...]]]:
    turned = side.parts[1:]
    for order in (turned, () if turned else ("col",)):
        words = "" if order == turned else f"{'columns' if order else 'rows'} contiguous"
        for text in (side.parts[0], *TRIED, *SWIZZLES):
            what = (
                ""
                if text == side.parts[0]
                else "no swizzle"
                if text == "plain"
                else f"place {text}"
                if ":" in text
                else f"swizzle {text}"
            )
            yield " and ".join(each for each in (words, what) if each) or "the same", (text, *order)


def _descriptor(kind: str, rest: str, _arch: object, _folders: Layers) -> Side:
    of, size, major, *more = _split(rest, 4, "TYPE,RxC,MAJOR,SWIZZLE, such as bf16,128x64,k,128B")
    name, bits = _type(of)
    if major not in ("k", "mn"):
        raise UsageError(f"{quoted(rest)}: MAJOR is k or mn, not {major[:20]!r}.")
    rows, cols = _sizes(size, rest)
    mode = _mode(",".join(more))
    side = Side(
        kind, name, rows, cols, bits, (major, "none" if mode == "plain" else mode), _behind, _behind_words, _majors
    )
    side.at  # noqa: B018
    return side


def _behind(side: Side) -> Ints:
    from tcprobe.ask.descriptor import lay_tile

    major, mode = side.parts
    width = 0 if mode == "none" else int(mode.removesuffix("B"))
    tile = lay_tile((side.rows, side.cols), side.of, major, width, (8, 32))
    line, k = np.mgrid[0 : side.rows, 0 : side.cols]
    inner = (k if major == "k" else line) * side.bits % 8
    at: Ints = tile.offset(line, k) * 8 + inner
    return at


def _behind_words(side: Side) -> str:
    major, mode = side.parts
    return f"lines x k behind a descriptor, {major} contiguous, {'no swizzle' if mode == 'none' else f'swizzle {mode}'}"


def _majors(side: Side) -> Iterator[tuple[str, tuple[str, ...]]]:
    own, _ = side.parts
    for major in (own, "mn" if own == "k" else "k"):
        for mode in ("none", "32B", "64B", "128B"):
            words = [] if major == own else [f"major {major}"]
            words += [] if mode == side.parts[1] else ["no swizzle" if mode == "none" else f"swizzle {mode}"]
            yield " and ".join(words) or "the same", (major, mode)


def _scales(kind: str, rest: str, arch: object, folders: Layers) -> Side:
    of, size, *more = _split(rest, 2, "NAME,RxC, such as sfatom,128x8")
    if more:
        raise UsageError(f"{quoted(rest)} is not NAME,RxC, such as sfatom,128x8.")
    rows, cols = _sizes(size, rest)
    name = ALSO.get(of.lower(), of.lower())
    if name not in SCALES:
        if not re.search(r"scale", of):
            raise UsageError(
                f"{quoted(of)} is no layout of scales: {', '.join(SCALES)}, or a fragment scale_a or scale_b."
            )
        from tcprobe.ask.scales import scales

        scales(of, arch=arch, results=None)  # type: ignore[arg-type]
        name = "sfatom"
    bits = 32 if name.endswith(".f32") else 8
    return Side(kind, "", rows, cols, bits, (name,), _scale_bytes, lambda side: SCALES[side.parts[0]], _other_scales)


def _scale_bytes(side: Side) -> Ints:
    line: Ints
    block: Ints
    line, block = np.mgrid[0 : side.rows, 0 : side.cols]
    name = side.parts[0]
    if name == "linear":
        return (line * side.cols + block) * 8
    if name == "sfatom":
        from tcprobe.references.tensor_memory import scale_offset

        offsets = [scale_offset(r, c, side.cols) for r, c in np.ndindex(side.rows, side.cols)]
        return np.array(offsets, np.int64).reshape(side.rows, side.cols) * 8
    if name == "8x4":
        tiles = -(-side.cols // 4)
        return ((line // 8 * tiles + block // 4) * 32 + line % 8 * 4 + block % 4) * 8
    if name == "packed":
        filled = -(-side.rows // 4) * 4
        return (block // 4 * filled * 4 + line * 4 + block % 4) * 8
    size = side.bits // 8
    filled = -(-side.rows * size // 16) * 16
    return (block * filled + line * size) * 8


def _other_scales(side: Side) -> Iterator[tuple[str, tuple[str, ...]]]:
    for name, words in SCALES.items():
        if name.endswith(".f32") == side.parts[0].endswith(".f32"):
            yield f"scales {name} ({words})", (name,)


def _numpy(kind: str, rest: str, _arch: object, _folders: Layers) -> Side:
    of, size, *more = _split(rest, 3, "TYPE,RxC,EXPR, such as u8,128x8,.reshape(4,32,2,4).transpose(2,1,0,3)")
    name, bits = _type(of)
    rows, cols = _sizes(size, rest)
    side = Side(
        kind,
        name,
        rows,
        cols,
        bits,
        (",".join(more),),
        _array_bytes,
        lambda side: f"the array after {side.parts[0]}",
        _turned,
    )
    side.at  # noqa: B018
    return side


def _array_bytes(side: Side) -> Ints:
    """The array of element numbers, reordered; where each number is then."""
    array = np.arange(side.rows * side.cols).reshape(side.rows, side.cols)
    for name, numbers, refusal in array_steps(side.parts[0]):
        try:
            array = _STEPS[name](array, *numbers)
        except UsageError as error:
            raise refusal(f"{name}({', '.join(map(str, numbers))}): {error}") from None
        except (ValueError, TypeError):
            raise refusal(f"{name}({', '.join(map(str, numbers))}) does not fit an array of {array.shape}") from None
    at = np.empty(side.rows * side.cols, np.int64)
    at[array.ravel()] = np.arange(at.size)
    return at.reshape(side.rows, side.cols) * side.bits


def _reshape(array: Ints, *sides: int) -> Ints:
    if any(side < -1 for side in sides) or len(sides) > MOST_AXES:
        raise ValueError
    return array.reshape(sides)


def _transpose(array: Ints, *axes: int) -> Ints:
    """NumPy's; refused where PyTorch's is another one without an error."""
    if array.ndim == len(axes) == 2 and axes[0] % 2 < axes[1] % 2:
        raise UsageError("NumPy leaves the array as it is, and PyTorch turns it: write .T, or nothing")
    return array.transpose(axes or None)


def _flatten(array: Ints, first: int = 0, last: int = -1) -> Ints:
    """PyTorch's, of axes `first` to `last`; NumPy's without numbers."""
    first, last = (axis + array.ndim if axis < 0 else axis for axis in (first, last))
    if not 0 <= first <= last < array.ndim:
        raise ValueError
    return array.reshape(*array.shape[:first], -1, *array.shape[last + 1 :])


MOST_AXES = 32  # of NumPy's arrays
_STEPS: dict[str, Callable[..., Ints]] = {
    "reshape": _reshape,
    "view": _reshape,
    "transpose": _transpose,
    "permute": lambda array, *axes: array.transpose(axes),
    "swapaxes": lambda array, first, second: array.swapaxes(first, second),
    "T": lambda array: array.T,
    "contiguous": lambda array: array,
    "ravel": lambda array: array.ravel(),
    "flatten": _flatten,
}


def array_steps(text: str) -> Iterator[tuple[str, list[int], Callable[[str], UsageError]]]:
    """The calls of .reshape(4,32).transpose(1,0), each with its numbers; UsageError for anything else."""
    if len(text) > 2000:
        raise UsageError(f"an expression of {len(text)} characters; at most 2000 are read.")
    position = 0
    call = re.compile(r"\s*\.\s*([A-Za-z]\w*)\s*(?:\(([-0-9,\s()\[\]]*)\))?")
    count = 0
    while text[position:].strip():
        match = call.match(text, position)
        column = position + 1
        if match is None or match[1] not in _STEPS:
            shown = match[1] if match else text[position : position + 1]
            raise UsageError(f"column {column} of {quoted(text)}: {shown[:40]!r} is not one of .{', .'.join(_STEPS)}.")
        inside = (match[2] or "").translate(str.maketrans("()[]", "    "))
        numbers = [part.strip() for part in inside.split(",") if part.strip()]
        if not all(re.fullmatch(r"-?[0-9]{1,10}", number) for number in numbers) or (match[2] is None) != (
            match[1] == "T"
        ):
            raise UsageError(f"column {column} of {quoted(text)}: .{match[1]} takes numbers alone.")

        def refusal(words: str, at: int = column) -> UsageError:
            return UsageError(f"column {at} of {quoted(text)}: {words}.")

        count += 1
        if count > 64:
            raise refusal("more than 64 calls")
        yield match[1], [int(number) for number in numbers], refusal
        position = match.end()


def _turned(side: Side) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield "the array as it is", (".reshape(-1)",)
    yield "transposed", (".T",)
    yield "transposed", (f"{side.parts[0]}.T",)
    yield "transposed", (f".T{side.parts[0]}",)


def _map_side(name: str) -> Side:
    """A file of row,col,byte."""
    from tcprobe.system import files

    path = Path(name)
    at: dict[tuple[int, int], int] = {}
    for number, line in enumerate(files.read_text(path).split("\n"), 1):
        text = line.partition("#")[0].strip()
        cells = [cell.strip() for cell in re.split(r"[,;\t]", text)]
        if not text or (not at and [cell.lower() for cell in cells] == ["row", "col", "byte"]):
            continue
        if len(cells) != 3 or not all(re.fullmatch(r"[0-9]{1,12}", cell) for cell in cells):
            raise DataError(f"{path}, line {number}: {quoted(text)} is not row,col,byte.")
        row, col, byte = map(int, cells)
        if max(row, col) >= MOST_SIDE or len(at) >= MOST_ELEMENTS:
            raise DataError(
                f"{path}, line {number}: rows and columns are below {MOST_SIDE}, at most {MOST_ELEMENTS} in all."
            )
        if (row, col) in at:
            raise DataError(f"{path}, line {number}: element [{row}][{col}] is given twice.")
        at[row, col] = byte
    if not at:
        raise DataError(f"{path}: no lines of row,col,byte.")
    rows, cols = 1 + max(row for row, _ in at), 1 + max(col for _, col in at)
    if rows * cols > MOST_ELEMENTS:
        raise DataError(f"{path}: {rows} x {cols} elements; at most {MOST_ELEMENTS} are read.")
    grid = np.full((rows, cols), -1, np.int64)
    for (row, col), byte in at.items():
        grid[row, col] = byte * 8
    return Side(
        "map",
        name,
        rows,
        cols,
        0,
        (),
        lambda _side: grid,
        lambda _side: f"{len(at)} elements of a file",
        lambda _side: iter(()),
    )


_READERS: dict[str, Callable[[str, str, object, Layers], Side]] = {
    "tma": _tma,
    "cp.async": _cp_async,
    **dict.fromkeys(("stmatrix", "ldmatrix", "st.shared", "ld.shared"), _access),
    "desc": _descriptor,
    "scales": _scales,
    "numpy": _numpy,
    "map": lambda kind, rest, arch, folders: _map_side(rest),
}
