"""Words of bits that are described field by field: both ways, and what no field describes is named.

>>> from tcprobe.isa.bit_fields import Field, decode, encode
>>> word = (Field("swizzle", 0, 2, ("none", 128, 64)), Field("stride", 4, 4, range(0, 256, 16)))
>>> encode(word, {"swizzle": 64, "stride": 48})
50
>>> decode(word, 0x3F, 8).undocumented
[{'bits': '0-1', 'value': 3, 'field': 'swizzle'}, {'bits': '2-3', 'value': 3, 'field': None}]

The words of tcgen05 that need no memory are here: the instruction descriptor and the zero-column mask.

>>> bits = encode_instruction("f16", {"m": 128, "n": 256, "a_type": "bf16", "b_type": "bf16", "d_type": "f32"})
>>> hex(bits), read_instruction("f16", bits).fields["n"]
('0x8400490', 256)
>>> said = {"skip_span": 3, "use_span": 4, "first_span_0": 1}
>>> hex(encode_mask(said)), zeroed(said, 64, 128)[:12]
('0x3028100000000', [1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 0, 0])
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import cycle, islice
from typing import NamedTuple

from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.instruction import Instruction
from tcprobe.values import Json

FieldCode = str | int | None  # what a code means; None where no text says it


class Field(NamedTuple):
    """`size` bits from bit `low` on; `values` has what each code means, None where no text says it."""

    name: str
    low: int
    size: int
    values: Sequence[FieldCode]

    @property
    def mask(self) -> int:
        """Its bits in the word."""
        return (1 << self.size) - 1 << self.low

    @property
    def documented(self) -> list[FieldCode]:
        """The values that have a meaning."""
        return [value for value in self.values if value is not None]

    def encode(self, meaning: FieldCode) -> int:
        """The bits of a value; UsageError where it has no code."""
        if meaning is None or meaning not in self.values:
            raise UsageError(f"{self.name} {meaning}: expected {_list_words(self.documented)}.")
        return self.values.index(meaning) << self.low

    def decode(self, bits: int) -> FieldCode:
        """What the bits mean, None where no text says it."""
        code = (bits & self.mask) >> self.low
        return self.values[code] if code < len(self.values) else None


class DecodedWord(NamedTuple):
    """The values of fields, and the runs of bits that are set without a documented meaning."""

    fields: Json
    undocumented: list[Json]


def encode(word: Sequence[Field], fields: Json) -> int:
    """The bits of a value for every field."""
    return sum(field.encode(fields[field.name]) for field in word)


def decode(word: Sequence[Field], bits: int, width: int) -> DecodedWord:
    """What `width` bits say."""
    fields = {field.name: field.decode(bits) for field in word}
    unknown = [_run(f.low, f.size, bits, f.name) for f in word if fields[f.name] is None]
    unknown += [_run(low, size, bits, None) for low, size in _gaps(word, width)]
    return DecodedWord(fields, [run for run in unknown if run["value"] or run["field"]])


def _run(low: int, size: int, bits: int, name: str | None) -> Json:
    shown = str(low) if size == 1 else f"{low}-{low + size - 1}"
    return {"bits": shown, "value": bits >> low & (1 << size) - 1, "field": name}


def _gaps(word: Sequence[Field], width: int) -> Iterator[tuple[int, int]]:
    """(first bit, number) of every run of bits between fields."""
    end = 0
    for field in sorted(word, key=lambda f: f.low):
        if field.low > end:
            yield end, field.low - end
        end = field.low + field.size
    if end < width:
        yield end, width - end


def _list_words(meanings: Sequence[FieldCode]) -> str:
    if len(meanings) > 8:
        return f"{meanings[0]}, {meanings[1]}, ... {meanings[-1]}"
    return " or ".join(map(str, meanings))


# The instruction descriptor of tcgen05.mma: 32 bits with M, N, the types and the majors, a format for each kind.
# Nothing is measured. Source: PTX ISA 9.1, section 9.7.16.4.2 (formats) and 9.7.16.2.1 (shapes); the same bits as
# InstrDescriptor and InstrDescriptorBlockScaled of CUTLASS, include/cute/arch/mma_sm100_desc.hpp.
DESCRIPTOR_SOURCE = "PTX ISA 9.1, section 9.7.16.4.2"
SHAPES = "PTX ISA 9.1, section 9.7.16.2.1"
DESCRIPTOR_WIDTH = 32
FLAG, CODES = range(2), range(4)
MAJORS = ("k", "mn")  # no transpose, transpose
NARROW = ("e4m3", "e5m2", None, "e2m3", "e3m2", "e2m1")
LARGE = ("e4m3", "e5m2")  # of the narrow types those that may be mn-major
BYTES = (*LARGE, "u8", "s8")
TRANSPOSED = "section 9.7.16.10.1 (table of N for 8-bit transpose B)"
NO_SELECTOR = ("i8", "f8f6f4")
SELECTORS = "PTX ISA 9.1, section 9.7.16.10.8.4"
Codes = tuple[FieldCode, ...]
PLAIN: dict[str, tuple[Codes, Codes]] = {  # by kind the codes of D, and of A and B
    "f16": (("f16", "f32"), ("f16", "bf16")),
    "tf32": ((None, "f32"), (None, None, "tf32")),
    "f8f6f4": (("f16", "f32"), NARROW),
    "i8": ((None, None, "s32"), ("u8", "s8")),
}
SCALED: dict[str, tuple[Codes, Codes]] = {  # by kind the codes of scales, and of A and B
    "mxf8f6f4": ((None, "ue8m0"), NARROW),
    "mxf4": ((None, "ue8m0"), (None, "e2m1")),
    "mxf4nvf4": (("ue4m3", "ue8m0"), (None, "e2m1")),
}
KINDS = (*PLAIN, *SCALED)
NEEDED = ("m", "n", "d_type", "a_type", "b_type", "scale_type")


def descriptor_fields(kind: str) -> tuple[Field, ...]:
    """The fields of a kind; UsageError for a kind that there is not."""
    if kind in PLAIN:
        return _plain(kind)
    if kind in SCALED:
        return _scaled(kind)
    raise UsageError(f"kind {kind!r}: expected {', '.join(KINDS)}.")


def _plain(kind: str) -> tuple[Field, ...]:
    d, ab = PLAIN[kind]
    negate = (0,) if kind == "i8" else FLAG
    return (
        Field("sparsity_selector", 0, 2, CODES),
        Field("sparse", 2, 1, FLAG),
        Field("saturate", 3, 1, FLAG if kind == "i8" else (0,)),
        Field("d_type", 4, 2, d),
        Field("a_type", 7, 3, ab),
        Field("b_type", 10, 3, ab),
        Field("negate_a", 13, 1, negate),
        Field("negate_b", 14, 1, negate),
        Field("a_major", 15, 1, MAJORS),
        Field("b_major", 16, 1, MAJORS),
        Field("n", 17, 6, range(0, 512, 8)),
        Field("m", 24, 5, range(0, 512, 16)),
        Field("max_shift", 30, 2, (0, 8, 16, 32)),
    )


def _scaled(kind: str) -> tuple[Field, ...]:
    scale, ab = SCALED[kind]
    four = kind != "mxf8f6f4"
    major = MAJORS[:1] if four else MAJORS
    fields = (
        Field("sparse", 2, 1, FLAG),
        Field("b_scale_id", 4, 2, CODES),
        Field("a_type", 7, 3, ab),
        Field("b_type", 10, 2 if four else 3, ab),
        Field("negate_a", 13, 1, FLAG),
        Field("negate_b", 14, 1, FLAG),
        Field("a_major", 15, 1, major),
        Field("b_major", 16, 1, major),
        Field("n", 17, 6, range(0, 512, 8)),
        Field("scale_type", 23, 1, scale),
        Field("m", 27, 2, (0, 128, 256)),
        Field("a_scale_id", 29, 2, CODES),
    )
    return (*fields, Field("k", 31, 1, (64, 96))) if four else fields


def encode_instruction(kind: str, said: Json) -> int:
    """The 32 bits; UsageError where a field is missing, unknown or excluded, with what there is."""
    fields = descriptor_fields(kind)
    known = {field.name for field in fields}
    if wrong := sorted(set(said) - known):
        raise UsageError(f"the descriptor of kind::{kind} has no {wrong[0]}: it has {', '.join(sorted(known))}.")
    values = {field.name: said[field.name] if field.name in said else _default(kind, field) for field in fields}
    bits = encode(fields, values)
    for reason in refusals(kind, values):
        raise UsageError(reason)
    return bits


def _default(kind: str, field: Field) -> FieldCode:
    choices = field.documented
    if field.name in NEEDED and len(choices) > 1:
        first = f"{choices[0]} to {choices[-1]}" if len(choices) > 8 else " or ".join(map(str, choices))
        raise UsageError(f"kind::{kind} needs {field.name}: give `{field.name}`, {first}.")
    return choices[0]


def read_instruction(kind: str, bits: int) -> DecodedWord:
    """What 32 bits say to a kind, undocumented ones named; UsageError for more bits."""
    if not 0 <= bits < 1 << DESCRIPTOR_WIDTH:
        raise UsageError(f"{bits:#x} has more than {DESCRIPTOR_WIDTH} bits, as an instruction descriptor has.")
    return decode(descriptor_fields(kind), bits, DESCRIPTOR_WIDTH)


def refusals(kind: str, fields: Json) -> Iterator[str]:
    """Why PTX has no multiply with such fields, each with the place that says it."""
    if fields["sparse"] == 0 and fields.get("sparsity_selector"):
        yield f"sparsity_selector {fields['sparsity_selector']} is for sparse multiplies ({DESCRIPTOR_SOURCE})."
    if fields["sparse"] and fields.get("sparsity_selector") and kind in NO_SELECTOR:
        yield f"sparsity_selector {fields['sparsity_selector']} must be 0 for kind::{kind} ({SELECTORS})."
    # IDs of scales that start inside what a multiply takes at once: 1 and 3, where PTX ISA has 0 and 2 alone. For
    # blocks of 32 with K = 96 it has 0 to 3 in one section and 0 or 2 in another (`contradictions`)
    if kind in ("mxf4", "mxf4nvf4") and not (fields["k"] == 96 and fields["scale_type"] == "ue8m0"):
        for name in ("a_scale_id", "b_scale_id"):
            if fields[name] % 2:
                yield f"{name} {fields[name]}: kind::{kind} has 0 or 2 ({DESCRIPTOR_SOURCE}, table 44)."
    if fields.get("d_type") == "f16" and "bf16" in (fields["a_type"], fields["b_type"]):
        yield f"D of f16 needs A and B of f16 ({SHAPES}, table of kinds and shapes)."
    for name in ("a", "b"):
        kind_of = fields[f"{name}_type"]
        if fields[f"{name}_major"] == "mn" and kind_of in NARROW and kind_of not in LARGE:
            yield f"{kind_of} is k-major only (CUTLASS, mma_sm100_desc.hpp, {name}_major_)."
    if not any(_has(form, fields) for form in _forms(kind, fields)):
        yield _no_shape(kind, fields)


def contradictions(kind: str, fields: Json) -> list[str]:
    """What sources state against each other about a descriptor with these fields, each with its place."""
    tables = (row.stated["tables"] for row in _of_kind(kind) if fields.get("k") == 96 and "tables" in row.stated)
    return [str(words) for words in next(tables, ())]


def _forms(kind: str, fields: Json) -> list[Instruction]:
    """The multiplies of a kind, sparse or dense, that the fields can be of."""
    return [
        row
        for row in _of_kind(kind)
        if (".sp." in row.id) == bool(fields["sparse"])
        and row.id.endswith(".k96") == (fields.get("k") == 96)
        and (".ws" in row.id or not fields.get("max_shift"))
    ]


@cache
def _of_kind(kind: str) -> tuple[Instruction, ...]:
    rows = inventory.instructions().values()
    return tuple(row for row in rows if row.family == "tcgen05" and row.kind == kind)


def _has(instruction: Instruction, fields: Json) -> bool:
    return fields["m"] in instruction.stated["m_values"] and fields["n"] in _n_values(instruction, fields)


def _n_values(instruction: Instruction, fields: Json) -> Sequence[int | str]:
    """Every N of a form; fewer for a B of 8 bits that is mn-major, as TRANSPOSED has it."""
    values = instruction.stated["n_values"]
    if fields["b_major"] != "mn" or fields["b_type"] not in BYTES:
        return values
    step = 32 if "cta_group::2" in instruction.id else 16
    return [n for n in values if int(n) % step == 0]


def _some(stated_sizes: Sequence[int | str]) -> str:
    first = ", ".join(map(str, stated_sizes[:3]))
    return f"{first}, ... {stated_sizes[-1]}" if len(stated_sizes) > 3 else first


def _no_shape(kind: str, fields: Json) -> str:
    there = "; ".join(
        f"{form.id}: M {', '.join(map(str, form.stated['m_values']))}, N {_some(_n_values(form, fields))}"
        for form in _forms(kind, fields)
    )
    words = "sparse" if fields["sparse"] else "dense"
    shift = f", max_shift {fields['max_shift']}" if fields.get("max_shift") else ""
    k = f", K {fields['k']}" if fields.get("k") == 96 else ""
    transposed = fields["b_major"] == "mn" and fields["b_type"] in BYTES
    source = f"{SHAPES}, and {TRANSPOSED}" if transposed else SHAPES
    major = ", B of 8 bits mn-major" if transposed else ""
    stated = f"{source} has {there or 'none at all'}."
    return " ".join(
        (
            f"kind::{kind}, {words}{k}{shift}{major}, has no M {fields['m']} with N {fields['n']}; {stated}",
            *(f"{text}." for text in contradictions(kind, fields)[:1]),
        )
    )


def forms(kind: str, fields: Json) -> list[str]:
    """Ids of the multiplies that take a descriptor with these fields."""
    return [form.id for form in _forms(kind, fields) if _has(form, fields)]


# The 64 bits by which tcgen05.mma.ws leaves columns of B out: the zero-column mask descriptor, and the mask it makes.
# Spans and the shift count columns. Source: PTX ISA 9.1, section 9.7.16.4.3. Its table 45 and its examples contradict
# each other: the examples, and the names, have skip_span as the columns that are zero, the table describes it as those
# that are used.
MASK_SOURCE = "PTX ISA 9.1, section 9.7.16.4.3"
EXAMPLES, DESCRIBED = f"{MASK_SOURCE}, examples 2 to 4", f"{MASK_SOURCE}, table 45, descriptions of the spans"
MASK_WIDTH = 64
PARTS = {128: 1, 64: 2, 32: 4}  # by M, how many parts of N have a start and a first span of their own
SIZES_N = (64, 128, 256)
MOST_SHIFT = {128: 32, 64: 32, 32: 16}
SPAN = range(1, 257)
MASK_FIELDS = (
    *(Field(f"start_count_{i}", 8 * i, 8, range(256)) for i in range(4)),
    *(Field(f"first_span_{i}", 32 + i, 1, (0, 1)) for i in range(4)),
    Field("non_zero_mask", 39, 1, (0, 1)),
    Field("skip_span", 40, 8, SPAN),
    Field("use_span", 48, 8, SPAN),
    Field("column_shift", 56, 6, range(33)),
)
USUAL_MASK = {field.name: field.values[0] for field in MASK_FIELDS} | {"non_zero_mask": 1}


def encode_mask(said: Json) -> int:
    """The 64 bits of these fields, of others the usual: UsageError for a field that there is not, or its value."""
    if unknown := sorted(said.keys() - USUAL_MASK.keys()):
        raise UsageError(f"a zero-column mask has no {unknown[0][:40]}: it has {', '.join(USUAL_MASK)}.")
    return encode(MASK_FIELDS, {**USUAL_MASK, **said})


def read_mask(bits: int) -> DecodedWord:
    """What 64 bits say, undocumented ones named; UsageError for more bits."""
    if not 0 <= bits < 1 << MASK_WIDTH:
        raise UsageError(f"{bits:#x} has more than {MASK_WIDTH} bits, as a zero-column mask has.")
    return decode(MASK_FIELDS, bits, MASK_WIDTH)


def zeroed(said: Json, m: int, n: int, exchanged: bool = False) -> list[int]:
    """Of every column of B whether it counts as zero; `exchanged`: the spans as the table describes them.

    UsageError for an M that .ws does not have, and for a shift beyond what this M allows.
    """
    said = {**USUAL_MASK, **said}
    if m not in PARTS:
        raise UsageError(f"tcgen05.mma.ws has no M {m}: it has {', '.join(map(str, sorted(PARTS)))}.")
    if (said["column_shift"] or 0) > MOST_SHIFT[m]:
        raise UsageError(f"column_shift {said['column_shift']}: at most {MOST_SHIFT[m]} for M {m}.")
    if not said["non_zero_mask"]:
        return [0] * n
    skip, use = said["skip_span"], said["use_span"]
    spans = {1: use, 0: skip} if exchanged else {1: skip, 0: use}
    return [bit for part in range(PARTS[m]) for bit in _mask_part(said, part, spans, n // PARTS[m])]


def _mask_part(said: Json, part: int, spans: Mapping[int, int], size: int) -> list[int]:
    """Spans in turn from the first one on, without the bits that the start count skips."""
    first, start = said[f"first_span_{part}"], said[f"start_count_{part}"]
    period = [first] * spans[first] + [1 - first] * spans[1 - first]
    return list(islice(cycle(period), start, start + size))
