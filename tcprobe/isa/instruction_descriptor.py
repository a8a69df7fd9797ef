"""The instruction descriptor of tcgen05.mma: 32 bits with M, N, the types and the majors, a format for each kind.

>>> from tcprobe.isa.instruction_descriptor import encode, read
>>> bits = encode("f16", {"m": 128, "n": 256, "a_type": "bf16", "b_type": "bf16", "d_type": "f32"})
>>> hex(bits), read("f16", bits).fields["n"]
('0x8400490', 256)

Nothing is measured. Source: PTX ISA 9.1, section 9.7.16.4.2 (formats) and 9.7.16.2.1 (shapes); the same bits as
InstrDescriptor and InstrDescriptorBlockScaled of CUTLASS, include/cute/arch/mma_sm100_desc.hpp.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from tcprobe.errors import UsageError
from tcprobe.isa import bit_fields, inventory
from tcprobe.isa.bit_fields import DecodedWord, Field, FieldCode
from tcprobe.isa.instruction import Instruction
from tcprobe.values import Json

SOURCE = "PTX ISA 9.1, section 9.7.16.4.2"
SHAPES = "PTX ISA 9.1, section 9.7.16.2.1"
WIDTH = 32
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


def word(kind: str) -> tuple[Field, ...]:
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


def encode(kind: str, said: Json) -> int:
    """The 32 bits; UsageError where a field is missing, unknown or excluded, with what there is."""
    fields = word(kind)
    known = {field.name for field in fields}
    if wrong := sorted(set(said) - known):
        raise UsageError(f"the descriptor of kind::{kind} has no {wrong[0]}: it has {', '.join(sorted(known))}.")
    values = {field.name: said[field.name] if field.name in said else _default(kind, field) for field in fields}
    bits = bit_fields.encode(fields, values)
    for reason in refusals(kind, values):
        raise UsageError(reason)
    return bits


def _default(kind: str, field: Field) -> FieldCode:
    choices = field.documented
    if field.name in NEEDED and len(choices) > 1:
        first = f"{choices[0]} to {choices[-1]}" if len(choices) > 8 else " or ".join(map(str, choices))
        raise UsageError(f"kind::{kind} needs {field.name}: give `{field.name}`, {first}.")
    return choices[0]


def read(kind: str, bits: int) -> DecodedWord:
    """What 32 bits say to a kind, undocumented ones named; UsageError for more bits."""
    if not 0 <= bits < 1 << WIDTH:
        raise UsageError(f"{bits:#x} has more than {WIDTH} bits, as an instruction descriptor has.")
    return bit_fields.decode(word(kind), bits, WIDTH)


def refusals(kind: str, fields: Json) -> Iterator[str]:
    """Why PTX has no multiply with such fields, each with the place that says it."""
    if fields["sparse"] == 0 and fields.get("sparsity_selector"):
        yield f"sparsity_selector {fields['sparsity_selector']} is for sparse multiplies ({SOURCE})."
    if fields["sparse"] and fields.get("sparsity_selector") and kind in NO_SELECTOR:
        yield f"sparsity_selector {fields['sparsity_selector']} must be 0 for kind::{kind} ({SELECTORS})."
    yield from _scale_ids(kind, fields)
    if fields.get("d_type") == "f16" and "bf16" in (fields["a_type"], fields["b_type"]):
        yield f"D of f16 needs A and B of f16 ({SHAPES}, table of kinds and shapes)."
    for name in ("a", "b"):
        kind_of = fields[f"{name}_type"]
        if fields[f"{name}_major"] == "mn" and kind_of in NARROW and kind_of not in LARGE:
            yield f"{kind_of} is k-major only (CUTLASS, mma_sm100_desc.hpp, {name}_major_)."
    if not any(_has(form, fields) for form in _forms(kind, fields)):
        yield _no_shape(kind, fields)


def _scale_ids(kind: str, fields: Json) -> Iterator[str]:
    """IDs of scales that start inside what a multiply takes at once: 1 and 3, where PTX ISA has 0 and 2 alone.

    For blocks of 32 with K = 96 it has 0 to 3 in one section and 0 or 2 in another (`contradictions`).
    """
    if kind in ("mxf4", "mxf4nvf4") and not (fields["k"] == 96 and fields["scale_type"] == "ue8m0"):
        for name in ("a_scale_id", "b_scale_id"):
            if fields[name] % 2:
                yield f"{name} {fields[name]}: kind::{kind} has 0 or 2 ({SOURCE}, table 44)."


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
