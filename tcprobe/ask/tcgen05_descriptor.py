"""Descriptors of tcgen05, as answers: of a tile in shared memory, and of an instruction; both ways, with reasons.

Everything is documented, nothing measured. A tile lies as one for wgmma does (CUTLASS has the same canonical layouts),
so steps, boxes and the byte of an element are those of `ask.descriptor`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from tcprobe.ask import descriptor as wgmma
from tcprobe.ask.descriptor import SharedTile, TileAnswer
from tcprobe.errors import UsageError
from tcprobe.isa import bit_fields
from tcprobe.layout import descriptor as smem
from tcprobe.layout.table import ranges
from tcprobe.question.answers import Answer, Meta, plain
from tcprobe.text import Described, Whole
from tcprobe.values import Json

STATUS = "documented"
TYPES = ("f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8")
M = 128  # lines of A that one multiply of one CTA takes at most
K_BYTES = 32
UNUSED_LBO = "not used, k of one multiply stays inside a row of the pattern; 1 in units of 16 bytes by PTX"


class Tcgen05Fields(Answer):
    """Every field in bytes; the swizzle is null where it is not documented."""

    start: int
    lbo: int
    sbo: int
    version_: int
    base_offset: int
    lbo_mode: str
    swizzle: int | str | None


class SetBits(Answer):
    """A run of bits, or a field, without a documented meaning."""

    bits: str
    value: int
    field: str | None


Fields = Annotated[
    dict[str, int | str | None],
    Meta(description="By name the value of each field, null where it is not documented."),
]
Unread = Annotated[
    list[SetBits],
    Meta(description="Runs of bits that are set, or fields whose value has no meaning: none is dropped."),
]
Contradictions = Annotated[list[str], Meta(description="What sources state against each other about these fields.")]


class Tcgen05TileAnswer(TileAnswer, before=True):
    """A tile and the descriptor that tcgen05 takes."""

    value: str
    instruction: str
    fields: Tcgen05Fields
    status: str
    source: str


class Tcgen05WordAnswer(Answer):
    """What 64 bits say to tcgen05."""

    value: str
    instruction: str
    fields: Tcgen05Fields
    undocumented: Unread
    status: str
    source: str


class ReadingAnswer(Answer):
    """What 32 bits say to a kind."""

    kind: str
    fields: Fields
    undocumented: Unread
    refused: list[str]
    forms: list[str]
    contradictions: Contradictions


class DescriptorWord(ReadingAnswer, before=True):
    """An instruction descriptor of a kind, the forms that take it, or why it is refused."""

    value: str


class InstructionAnswer(DescriptorWord):
    """An instruction descriptor with given fields."""

    cuda: str
    status: str
    source: str


class ReadInstruction(DescriptorWord):
    """What 32 bits say to every kind; `fields` are of the first that takes the value."""

    kinds: list[str]
    readings: list[ReadingAnswer]
    status: str
    source: str


class DifferingColumns(Answer):
    """Which columns another source says count as zero."""

    source: str
    zero: list[list[int]]


class ZeroMaskAnswer(Answer):
    """A zero-column mask."""

    value: str
    instruction: str
    m: int
    n: int
    fields: Annotated[dict[str, int | None], Meta(description="spans and the shift in columns")]
    undocumented: Unread
    masks: Annotated[list[str], Meta(description="of each part of N, column 0 in the lowest bit")]
    zero: Annotated[list[list[int]], Meta(description="first and last column of each run that counts as zero")]
    b_columns: Annotated[list[int] | None, Meta(description="first and last column of B that is read")]
    differs: list[DifferingColumns]
    cuda: str
    status: str
    source: str


OfTcgen05 = Tcgen05TileAnswer | Tcgen05WordAnswer | InstructionAnswer | ReadInstruction | ZeroMaskAnswer
PRINTED = Annotated[
    wgmma.SharedTileAnswer | wgmma.DescriptorAnswer | OfTcgen05,
    Meta(
        description="The descriptor of a tile or of an instruction, or what one says; of tcgen05 `status` is "
        "documented."
    ),
]


@dataclass(frozen=True, repr=False)
class Tcgen05Tile(Described):
    """A tile in shared memory, whose `value` is the descriptor that tcgen05 takes, with start address 0."""

    tile: SharedTile

    @property
    def value(self) -> int:
        """The 64 bits."""
        return smem.encode_tcgen05(self.tile.descriptor)

    @property
    def in_words(self) -> Iterator[str]:
        """The tile, its descriptor and what each field of it is for, how addresses go on, the code."""
        smem_tile, fields = self.tile, self.tile.descriptor
        swizzle = f"swizzle {fields.swizzle}" if fields.swizzle else "no swizzle"
        yield (
            f"{smem_tile.lines} x {smem_tile.k} of {smem_tile.type}, {smem_tile.major} contiguous, {swizzle}: "
            f"{smem_tile.bytes} bytes"
        )
        yield f"{self.value:#018x} with start address 0, for tcgen05 ({STATUS}, {smem.TCGEN05_SOURCE})"
        yield f"  LBO {fields.lbo}, relative: {smem_tile.reasons['lbo']}"
        yield f"  SBO {fields.sbo}: {smem_tile.reasons['sbo']}"
        yield f"  start: a multiple of {smem_tile.alignment}"
        yield f"  each k step: {', '.join(f'+{n} bytes (+{n // 16})' for n in smem_tile.per_k) or 'there is one only'}"
        yield f"  byte of element (line, k): {smem_tile.formula}"
        yield Whole(f"  CUDA: {cuda(smem_tile)}")

    def to_json(self) -> Json:
        """Plain data."""
        return tile_json(self.tile)


def tile(size: tuple[int, int], kind: str, major: str, swizzle: int) -> SharedTile:
    """A tile of `size` lines x k; UsageError says why where no descriptor can describe it."""
    if kind not in TYPES:
        raise UsageError(f"tcprobe describes tiles of {', '.join(TYPES)} for tcgen05, not of {kind!r}.")
    if (kind, major) == ("tf32", "mn"):
        raise UsageError(
            "tf32 with lines contiguous takes 128-byte swizzle in atoms of 32 bytes only (PTX ISA 9.1, section "
            "9.7.16.4.2), whose bytes tcprobe does not describe: use `major` k."
        )
    lines = size[0]
    shared_tile = wgmma.lay_tile(size, kind, major, swizzle, (lines if lines % M else M, K_BYTES))
    if major == "k" and swizzle:
        shared_tile.reasons["lbo"] = UNUSED_LBO
    return shared_tile


def tile_json(smem_tile: SharedTile) -> Json:
    """Plain data of what is said of a tile."""
    answer = Tcgen05TileAnswer.of(
        smem_tile,
        value=f"{smem.encode_tcgen05(smem_tile.descriptor):#018x}",
        instruction="tcgen05",
        fields=smem.tcgen05_fields(smem_tile.descriptor),
        start_multiple_of=smem_tile.alignment,
        advance_k=smem_tile.per_k,
        advance_block=smem_tile.per_block,
        cuda=cuda(smem_tile),
        tma=wgmma.tma(smem_tile),
        status=STATUS,
        source=smem.TCGEN05_SOURCE,
    )
    return plain(answer)


def cuda(smem_tile: SharedTile) -> str:
    """The line that makes the descriptor of a tile at `smem`."""
    value = smem.encode_tcgen05(smem_tile.descriptor)
    return f"uint64_t desc = {value:#018x}ull | (uint64_t)((__cvta_generic_to_shared(smem) & 0x3ffff) >> 4);"


def value_json(bits: int) -> Json:
    """Plain data of what 64 bits say to tcgen05."""
    answer = Tcgen05WordAnswer.of(
        smem.read_tcgen05(bits),
        value=f"{bits:#018x}",
        instruction="tcgen05",
        status=STATUS,
        source=smem.TCGEN05_SOURCE,
    )
    return plain(answer)


def instruction_json(kind: str, field_values: Json) -> Json:
    """Plain data of the instruction descriptor with these fields; UsageError as `encode`."""
    bits = bit_fields.encode_instruction(kind, field_values)
    answer = InstructionAnswer.of(
        _read(kind, bits),
        value=f"{bits:#010x}",
        cuda=f"uint32_t idesc = {bits:#010x}u;",
        status=STATUS,
        source=bit_fields.DESCRIPTOR_SOURCE,
    )
    return plain(answer)


def instruction_value_json(bits: int, kind: str | None) -> Json:
    """Plain data of what 32 bits say to a kind, or to every one; `fields` are of the first that takes the value."""
    readings = [_read(name, bits) for name in ([kind] if kind else bit_fields.KINDS)]
    taking = [reading for reading in readings if not reading.undocumented and not reading.refused]
    answer = ReadInstruction.of(
        (taking or readings)[0],
        value=f"{bits:#010x}",
        kinds=[reading.kind for reading in taking],
        readings=readings,
        status=STATUS,
        source=bit_fields.DESCRIPTOR_SOURCE,
    )
    return plain(answer)


def zero_mask_json(bits: int, m: int, n: int) -> Json:
    """Plain data of a zero-column mask: its fields, and which columns of B count as zero, by both readings of PTX.

    UsageError for M and N that tcgen05.mma.ws does not have.
    """
    if n not in bit_fields.SIZES_N:
        raise UsageError(f"tcgen05.mma.ws has no N {n}: it has {', '.join(map(str, bit_fields.SIZES_N))}.")
    reading = bit_fields.read_mask(bits)
    mask, other = (bit_fields.zeroed(reading.fields, m, n, exchanged) for exchanged in (False, True))
    size, shift = n // bit_fields.PARTS[m], reading.fields["column_shift"]
    answer = ZeroMaskAnswer.of(
        reading,
        value=f"{bits:#018x}",
        instruction="tcgen05.mma.ws",
        m=m,
        n=n,
        masks=[
            f"{sum(bit << place for place, bit in enumerate(mask[first : first + size])):#x}"
            for first in range(0, n, size)
        ],
        zero=_runs(mask),
        b_columns=None if shift is None else [shift, shift + n - 1],
        differs=[DifferingColumns(bit_fields.DESCRIBED, _runs(other))] if other != mask else [],
        cuda=f"uint64_t zero_columns = {bits:#018x}ull;",
        status=STATUS,
        source=bit_fields.EXAMPLES,
    )
    return plain(answer)


def _runs(zero: Sequence[int]) -> list[list[int]]:
    """First and last of each run of columns that count as zero."""
    return [list(run) for run in ranges(column for column, bit in enumerate(zero) if bit)]


def _read(kind: str, bits: int) -> ReadingAnswer:
    reading = bit_fields.read_instruction(kind, bits)
    unread = [run for run in reading.undocumented if run["field"]]
    refused = [] if unread else list(bit_fields.refusals(kind, reading.fields))
    forms = [] if unread or refused else bit_fields.forms(kind, reading.fields)
    contradictions = bit_fields.contradictions(kind, reading.fields)
    return ReadingAnswer.of(reading, kind=kind, refused=refused, forms=forms, contradictions=contradictions)


class WordAnswer(NamedTuple):
    """What is said of a word of tcgen05: an instruction descriptor, a mask, or a descriptor in memory."""

    plain: Json

    @property
    def about(self) -> str:
        """The word itself."""
        value: str = self.plain["value"]
        return value

    @property
    def in_words(self) -> Iterator[str]:
        """Its fields, what of it is not documented, and what follows."""
        plain, rests_on = self.plain, f"({self.plain['status']}, {self.plain['source']})"
        if "zero" in plain:
            yield from _mask_words(plain)
        elif "kind" in plain:
            yield f"{self.about}, instruction descriptor of tcgen05.mma {rests_on}"
            for reading in plain.get("readings", [plain]):
                fields = ", ".join(f"{name} {value}" for name, value in reading["fields"].items() if value is not None)
                yield f"  kind::{reading['kind']}: {fields}"
                yield from _undocumented(reading["undocumented"])
                yield from (f"    refused: {reason}" for reason in reading["refused"])
                if reading["forms"]:
                    yield f"    accepted by {', '.join(reading['forms'])}"
                yield from (f"    sources differ: {words}" for words in reading["contradictions"])
            if "cuda" in plain:
                yield Whole(f"  CUDA: {plain['cuda']}")
        else:
            yield f"{self.about}, for tcgen05 according to its version bits {rests_on}"
            for name, number in plain["fields"].items():
                yield Whole(f"  {name:<12} {'-' if number is None else number}")
            yield from _undocumented(plain["undocumented"])

    def to_json(self) -> Json:
        """Plain data."""
        return self.plain


def _mask_words(plain: Json) -> Iterator[str]:
    yield f"{plain['value']}, zero-column mask of tcgen05.mma.ws, M {plain['m']}, N {plain['n']} ({plain['status']})"
    yield f"  {', '.join(f'{name} {value}' for name, value in plain['fields'].items() if value is not None)}"
    yield from _undocumented(plain["undocumented"])
    yield f"  columns of B treated as zero: {_spans(plain['zero'])}, by {plain['source']}"
    yield from (f"  differs in {other['source']}: {_spans(other['zero'])}" for other in plain["differs"])
    if plain["b_columns"]:
        yield "  B is read from column {} to {}".format(*plain["b_columns"])
    yield Whole(f"  CUDA: {plain['cuda']}")


def _spans(runs: list[list[int]]) -> str:
    return ", ".join(f"{first}-{last}" if first < last else str(first) for first, last in runs) or "none"


def _undocumented(runs: list[Json]) -> Iterator[str]:
    for run in runs:
        field = f" ({run['field']})" if run["field"] else ""
        verb = "bits {} are" if "-" in run["bits"] else "bit {} is"
        yield f"    {verb.format(run['bits'] + field)} {run['value']}: not documented"


def field_values_of(assignments: tuple[str, ...]) -> dict[str, int | str]:
    """Fields by name, numbers where digits stand."""
    fields: dict[str, int | str] = {}
    for word in assignments:
        name, equal, value = word.partition("=")
        if not (equal and re.fullmatch(r"[a-z_]{1,20}[0-3]?", name) and re.fullmatch(r"[a-z0-9]{1,9}", value)):
            raise UsageError(f"`others` {word[:40]!r}: expected FIELD=VALUE, such as b_major=mn.")
        if name in fields:
            raise UsageError(f"`others` gives {name} twice.")
        fields[name] = int(value) if value.isdigit() else value
    return fields


def bits_of(value: str, width: int, otherwise: str = "") -> int:
    """The number of a text such as 0x08400490, or of decimal digits that are too many for hexadecimal ones.

    UsageError for another one, also where the digits may be both.
    """
    if re.fullmatch(r"0[xX][0-9a-fA-F]{1,16}", value):
        return int(value, 0)
    if re.fullmatch(f"[1-9][0-9]{{{width // 4},19}}", value):
        return int(value)
    if re.fullmatch(r"[0-9a-fA-F]{1,16}", value):
        decimal = f", or 0x{int(value):x} if it is decimal" if value.isdigit() else ""
        raise UsageError(f"{value} does not say that it is hexadecimal: give 0x{value}{decimal}.")
    example = "0x08400490" if width <= 32 else "0x4000004000010000"
    raise UsageError(f"{value[:40]!r} is not a number of {width} bits such as {example}{otherwise}.")


def instruction_word(bits: int | None, kind: str | None, field_values: Json) -> WordAnswer:
    """The instruction descriptor of fields, or what its 32 bits say; UsageError for both, and for neither."""
    if bits is not None:
        if field_values:
            raise UsageError(f"0xVALUE holds every field except the kind: remove {next(iter(field_values))}.")
        return WordAnswer(instruction_value_json(bits, kind))
    if kind is None:
        raise UsageError("give `mma_kind`, `m`, `n` and the types, or a value such as 0x08400490.")
    return WordAnswer(instruction_json(kind, field_values))


def mask_word(bits: int | None, m: int, n: int, field_values: Json) -> WordAnswer:
    """The zero-column mask of fields, or what its 64 bits say."""
    return WordAnswer(zero_mask_json(bit_fields.encode_mask(field_values) if bits is None else bits, m, n))
