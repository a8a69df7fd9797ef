"""What the 128 bytes of a tensor map say: the arguments of the call that made them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

from tcprobe.errors import UsageError
from tcprobe.isa.tensor_map import DATA_TYPES, FILLS, INTERLEAVES, PROMOTIONS, SWIZZLES
from tcprobe.question.answers import Answer, Meta, plain
from tcprobe.references.shared_memory.tensor_map_bits import BYTES, MapFields, decode
from tcprobe.text import Described, quoted
from tcprobe.values import Json

# names of the driver's arguments
ARGUMENTS = {
    "data_type": "tensorDataType",
    "rank": "tensorRank",
    "dims": "globalDim",
    "strides": "globalStrides",
    "box": "boxDim",
    "steps": "elementStrides",
    "promotion": "l2Promotion",
    "fill": "oobFill",
}


class Im2col(Answer):
    """Corners of the box, and how many channels and pixels it has."""

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    channels: int
    pixels: int


class DecodedAnswer(Answer, rename=ARGUMENTS):
    """Of `--decode`: the arguments that a map was made with."""

    data_type: str
    rank: Annotated[int, Meta(ge=1, le=5)]
    address: Annotated[int, Meta(ge=0)]
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: Annotated[tuple[int, ...], Meta(description="Empty of im2col maps.")]
    steps: tuple[int, ...]
    interleave: str
    swizzle: str
    promotion: str
    fill: str
    im2col: Im2col | None


@dataclass(frozen=True, repr=False)
class DecodedMap(Described):
    """The arguments of cuTensorMapEncodeTiled, or of cuTensorMapEncodeIm2col, that a map was made with."""

    fields: MapFields

    @property
    def in_words(self) -> Iterator[str]:
        """Each argument, by the name of the driver API."""
        said = self.to_json()
        kind = "tiled" if said["im2col"] is None else "im2col"
        yield f"{kind} map of {said['tensorDataType']}, rank {said['tensorRank']}"
        yield f"  address {said['address']:#x}"
        for name in ("globalDim", "globalStrides", "boxDim", "elementStrides"):
            yield f"  {name}: {', '.join(map(str, said[name])) or 'none'}"
        for name in ("interleave", "swizzle", "l2Promotion", "oobFill"):
            yield f"  {name}: {said[name]}"
        for name, value in (said["im2col"] or {}).items():
            yield f"  {name}: {', '.join(map(str, value)) if isinstance(value, list) else value}"
        yield "bits: docs/tensor_maps.md, measured: an H200's driver 580.159.04, CUDA 13.0"

    def to_json(self) -> Json:
        """Plain data; of im2col maps boxDim is empty."""
        held = self.fields
        answer = DecodedAnswer.of(
            held,
            data_type=_name({name: number for name, (number, _) in DATA_TYPES.items()}, held.type),
            rank=len(held.dims),
            box=() if held.corners else held.box,
            interleave=_name(INTERLEAVES, held.interleave),
            swizzle=_name(SWIZZLES, held.swizzle),
            promotion=_name(PROMOTIONS, held.promotion),
            fill=_name(FILLS, held.fill),
            im2col=Im2col(*held.corners, *held.box) if held.corners else None,
        )
        return plain(answer)


def decoded(text: str) -> DecodedMap:
    """The map of 256 hexadecimal digits, with spaces, commas or 0x between; UsageError where they are none."""
    digits = re.sub(r"0x|[\s,]", "", text[:4096])
    if not re.fullmatch(f"[0-9a-fA-F]{{{2 * BYTES}}}", digits):
        size = f"{BYTES} bytes of a map are {2 * BYTES} hexadecimal digits"
        raise UsageError(f"`decode` {quoted(text)}: the {size}, the first byte first.")
    return DecodedMap(decode(bytes.fromhex(digits)))


def _name(numbers: Mapping[str, int], number: int) -> str:
    return next((name for name, known in numbers.items() if known == number), str(number))
