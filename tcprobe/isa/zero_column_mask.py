"""The 64 bits by which tcgen05.mma.ws leaves columns of B out: the zero-column mask descriptor, and the mask it makes.

>>> from tcprobe.isa.zero_column_mask import encode, zeroed
>>> said = {"skip_span": 3, "use_span": 4, "first_span_0": 1}
>>> hex(encode(said))
'0x3028100000000'
>>> zeroed(said, 64, 128)[:12], zeroed(said, 64, 128)[64:72]
([1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1, 1, 0])

Spans and the shift count columns. Source: PTX ISA 9.1, section 9.7.16.4.3. Its table 45 and its examples contradict
each other: the examples, and the names, have skip_span as the columns that are zero, the table describes it as those
that are used.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle, islice

from tcprobe.errors import UsageError
from tcprobe.isa import bit_fields
from tcprobe.isa.bit_fields import DecodedWord, Field
from tcprobe.values import Json

SOURCE = "PTX ISA 9.1, section 9.7.16.4.3"
EXAMPLES, DESCRIBED = f"{SOURCE}, examples 2 to 4", f"{SOURCE}, table 45, descriptions of the spans"
WIDTH = 64
PARTS = {128: 1, 64: 2, 32: 4}  # by M, how many parts of N have a start and a first span of their own
SIZES_N = (64, 128, 256)
MOST_SHIFT = {128: 32, 64: 32, 32: 16}
SPAN = range(1, 257)
WORD = (
    *(Field(f"start_count_{i}", 8 * i, 8, range(256)) for i in range(4)),
    *(Field(f"first_span_{i}", 32 + i, 1, (0, 1)) for i in range(4)),
    Field("non_zero_mask", 39, 1, (0, 1)),
    Field("skip_span", 40, 8, SPAN),
    Field("use_span", 48, 8, SPAN),
    Field("column_shift", 56, 6, range(33)),
)
USUAL = {field.name: field.values[0] for field in WORD} | {"non_zero_mask": 1}


def encode(said: Json) -> int:
    """The 64 bits of these fields, of others the usual: UsageError for a field that there is not, or its value."""
    if unknown := sorted(said.keys() - USUAL.keys()):
        raise UsageError(f"a zero-column mask has no {unknown[0][:40]}: it has {', '.join(USUAL)}.")
    return bit_fields.encode(WORD, {**USUAL, **said})


def read(bits: int) -> DecodedWord:
    """What 64 bits say, undocumented ones named; UsageError for more bits."""
    if not 0 <= bits < 1 << WIDTH:
        raise UsageError(f"{bits:#x} has more than {WIDTH} bits, as a zero-column mask has.")
    return bit_fields.decode(WORD, bits, WIDTH)


def zeroed(said: Json, m: int, n: int, exchanged: bool = False) -> list[int]:
    """Of every column of B whether it counts as zero; `exchanged`: the spans as the table describes them.

    UsageError for an M that .ws does not have, and for a shift beyond what this M allows.
    """
    said = {**USUAL, **said}
    if m not in PARTS:
        raise UsageError(f"tcgen05.mma.ws has no M {m}: it has {', '.join(map(str, sorted(PARTS)))}.")
    if (said["column_shift"] or 0) > MOST_SHIFT[m]:
        raise UsageError(f"column_shift {said['column_shift']}: at most {MOST_SHIFT[m]} for M {m}.")
    if not said["non_zero_mask"]:
        return [0] * n
    skip, use = said["skip_span"], said["use_span"]
    spans = {1: use, 0: skip} if exchanged else {1: skip, 0: use}
    return [bit for part in range(PARTS[m]) for bit in _part(said, part, spans, n // PARTS[m])]


def _part(said: Json, part: int, spans: Mapping[int, int], size: int) -> list[int]:
    """Spans in turn from the first one on, without the bits that the start count skips."""
    first, start = said[f"first_span_{part}"], said[f"start_count_{part}"]
    period = [first] * spans[first] + [1 - first] * spans[1 - first]
    return list(islice(cycle(period), start, start + size))
