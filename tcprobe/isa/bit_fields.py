"""Words of bits that are described field by field: both ways, and what no field describes is named.

>>> from tcprobe.isa.bit_fields import Field, decode, encode
>>> word = (Field("swizzle", 0, 2, ("none", 128, 64)), Field("stride", 4, 4, range(0, 256, 16)))
>>> encode(word, {"swizzle": 64, "stride": 48})
50
>>> decode(word, 0x3F, 8).undocumented
[{'bits': '0-1', 'value': 3, 'field': 'swizzle'}, {'bits': '2-3', 'value': 3, 'field': None}]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tcprobe.errors import UsageError
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
