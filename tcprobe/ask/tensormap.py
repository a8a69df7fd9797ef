"""The arguments of cuTensorMapEncodeTiled for a tile: its boxes, what the driver checks, where it comes to lie.

>>> found = plan(MapOptions("bf16", tile=(64, 128), dims=(4096, 2048), swizzle="128B"))
>>> found.map.box, found.map.strides, found.boxes
((64, 64), (8192,), (2, 1))

Refused is what the driver would refuse, and what its manual does not allow though it is not checked; each rule with its
source, and with what the driver said wherever `tcprobe run --family tma` broke it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Annotated, Literal, NamedTuple

import click

from tcprobe.ask.tensor_map_bytes import ARGUMENTS, DecodedAnswer, DecodedMap, decoded
from tcprobe.errors import UsageError, check_choice
from tcprobe.isa.arch import arch as arch_row
from tcprobe.isa.tensor_map import (
    DATA_TYPE_OF,
    DATA_TYPES,
    EVERY_SPAN,
    FILLS,
    INTERLEAVES,
    PACKED,
    PACKED_BITS,
    PADDED,
    PERIODS,
    PROMOTIONS,
    SWIZZLES,
)
from tcprobe.layout.swizzle import Swizzle, map_mode, map_tile
from tcprobe.question.answers import Answer, plain
from tcprobe.question.arguments import PlaceName, Sizes, TypeName, arch_name, checked, element_type, place, sizes, whole
from tcprobe.question.declare import Option, command
from tcprobe.question.options import ElementType, MapSwizzle, MapTile, NonEmptyText, Number, Sides
from tcprobe.question.shared import JsonOption, OneArch, OnlyOption, ResultsOption, print_answer
from tcprobe.references.shared_memory import tma
from tcprobe.references.shared_memory.tensor_map import (
    MANUAL,
    MEASURED,
    MOST_BOX,
    MOST_BYTES,
    MapRule,
    TensorMap,
    broken_rules,
    rules_on,
)
from tcprobe.store.choose import layers
from tcprobe.store.finding import Finding
from tcprobe.store.kinds import tensor_maps
from tcprobe.store.kinds.tensor_maps import ENCODINGS
from tcprobe.text import Described, Whole, escaped
from tcprobe.values import Json

TAKEN = "CUDA_SUCCESS"
PREFIX = "CU_TENSOR_MAP_"
DimNumbers = tuple[int, ...]


class MapOptions(NamedTuple):
    """What is asked: a PTX type or the driver's; `tile`, which may take several boxes, or one `box`.

    A tile is rows x columns, outer sides before them, as everywhere; all others are as the driver has them, inner side
    first. The tensor is a matrix `of` rows x columns, as a tile is written, or has `dims`; without either it is the
    tile alone. `strides` in bytes are those without gaps, `steps` all 1. `address` is a number that the tensor's
    address is a multiple of, if 16 is not enough or too much.
    """

    type: str
    tile: DimNumbers | None = None
    box: DimNumbers | None = None
    of: DimNumbers | None = None
    dims: DimNumbers | None = None
    strides: DimNumbers | None = None
    steps: DimNumbers | None = None
    interleave: str = "NONE"
    swizzle: str = "NONE"
    promotion: str = "NONE"
    fill: str = "NONE"
    address: int = 16


class CheckedRule(Answer):
    """What must hold of an argument, and whether the driver checks it."""

    argument: str
    words: str
    checked: bool
    evidence: str


class MapPlanAnswer(Answer, rename=ARGUMENTS):
    """The arguments of cuTensorMapEncodeTiled for a tile; `pitch` is null with interleave."""

    arch: str
    data_type: str
    rank: int
    dims_of: Literal["tile", "tensor"]
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...]
    interleave: str
    swizzle: str
    promotion: str
    fill: str
    address_multiple_of: int
    boxes: tuple[int, ...]
    row_bytes: int
    box_bytes: int
    pitch: int | None
    byte_swizzle: list[int]
    then_swizzle: list[int] | None
    start_multiple_of: int
    cuda: str
    rules: list[CheckedRule]
    evidence: str


@dataclass(frozen=True, repr=False)
class MapPlan(Described):
    """A map that breaks no rule, its boxes by sides, inner first, and the type as the driver has it.

    `alone`: nobody said of what matrix the tile is, so that dims and strides are the tile's own.
    """

    map: TensorMap
    boxes: DimNumbers
    type: str
    evidence: dict[str, str]
    alone: bool
    arch: str = f"sm_{tma.LEAST_ARCH}"
    rests_on: str = ""  # measurements, in words

    @property
    def in_words(self) -> Iterator[str]:
        """The boxes, where their rows come to, and the call."""
        tensor, count = self.map, " x ".join(map(str, self.boxes))
        counted = (
            "gaps included; what an mbarrier must expect is not measured"
            if tensor.type in PADDED
            else "which an mbarrier must expect"
        )
        yield (
            f"{count} boxes of {' x '.join(map(str, tensor.box))} elements, inner side first: rows of "
            f"{tensor.row_bytes} bytes, {self.bytes} bytes each, {counted}"
        )
        if self.pitch:
            names = " and ".join(swizzle.name for swizzle in swizzles(tensor.swizzle))
            where = f"{names} of the shared address" if tensor.swizzle else "without a swizzle"
            yield (
                f"in shared memory rows {self.pitch} bytes apart, {where}; a box begins at a multiple of 128"
                + (f", or of {self.alignment} to start at the pattern's first row" if tensor.swizzle else "")
            )
        if self.alone:
            yield "dims and strides are the tile's own, as if it were the whole matrix; --of ROWSxCOLS gives a matrix's"
        yield from map(Whole, cuda(self).splitlines())
        if self.rests_on:
            yield escaped(self.rests_on)

    @property
    def bytes(self) -> int:
        """Of a box, as an mbarrier counts them; steps leave elements out, the inner one with interleave only."""
        map_ = self.map
        steps = (map_.steps[0] if map_.interleave else 1, *map_.steps[1:])
        return map_.bits * prod(-(-side // step) for side, step in zip(map_.box, steps, strict=True)) // 8

    @property
    def pitch(self) -> int | None:
        """Bytes from row to row in shared memory; None with interleave, which nobody measured."""
        return None if self.map.interleave else EVERY_SPAN.get(self.map.swizzle, self.map.row_bytes)

    @property
    def alignment(self) -> int:
        """Of a box in shared memory, so that the pattern begins with it."""
        return max(tma.ALIGNMENT, PERIODS.get(self.map.swizzle, 0))

    def to_json(self) -> Json:
        tensor_map = self.map
        first, then = (*(swizzle.to_json() for swizzle in swizzles(tensor_map.swizzle)), None)[:2]
        answer = MapPlanAnswer.of(
            tensor_map,
            arch=self.arch,
            data_type=f"{PREFIX}DATA_TYPE_{self.type}",
            dims_of="tile" if self.alone else "tensor",
            interleave=_name(INTERLEAVES, tensor_map.interleave),
            swizzle=_name(SWIZZLES, tensor_map.swizzle),
            promotion=_name(PROMOTIONS, tensor_map.promotion),
            fill=_name(FILLS, tensor_map.fill),
            address_multiple_of=tensor_map.address,
            boxes=self.boxes,
            box_bytes=self.bytes,
            pitch=self.pitch,
            byte_swizzle=first,
            then_swizzle=then,
            start_multiple_of=self.alignment,
            cuda=cuda(self),
            rules=[
                CheckedRule.of(rule, evidence=self.evidence[rule.name]) for rule in rules_on(arch_row(self.arch).number)
            ],
            evidence=self.rests_on,
        )
        return plain(answer)


def plan(map_options: MapOptions, encodings: Finding | None = None, arch_number: int = tma.LEAST_ARCH) -> MapPlan:
    """The map for arch number `arch_number`; `encodings` is the finding of the driver's encodings.

    UsageError names every rule that it breaks.
    """
    kind = DATA_TYPE_OF.get(map_options.type, map_options.type.upper().removeprefix(f"{PREFIX}DATA_TYPE_"))
    if kind not in DATA_TYPES and kind not in PACKED:
        raise UsageError(
            f"no tensor map has elements of {map_options.type[:30]!r}; types are {', '.join(DATA_TYPE_OF)}, "
            f"or the driver's {', '.join((*DATA_TYPES, *PACKED))}."
        )
    if (map_options.tile is None) == (map_options.box is None):
        raise UsageError("give `tile`, which may take several boxes, or `box`, which is one.")
    for name, value, known in (
        ("swizzle", map_options.swizzle, SWIZZLES),
        ("interleave", map_options.interleave, INTERLEAVES),
        ("promotion", map_options.promotion, PROMOTIONS),
        ("fill", map_options.fill, FILLS),
    ):
        check_choice(name, value, known)
    if map_options.address < 1:
        raise UsageError(f"`address` {map_options.address}: what the address is a multiple of is 1 or more.")
    number, far, near = _bits(kind)
    swizzle, interleave = SWIZZLES[map_options.swizzle], INTERLEAVES[map_options.interleave]
    tile = map_options.tile[::-1] if map_options.tile else map_options.box or ()  # inner side first from here on
    box = map_options.box or fitting_box(
        tile, near, 128 if number in PADDED else 0 if interleave else EVERY_SPAN.get(swizzle, 0)
    )
    if map_options.of and map_options.dims:
        raise UsageError("`of` and `dims` both say the sides of the tensor: give one.")
    dims = map_options.dims or (map_options.of or ())[::-1] or tile
    strides = dense_strides(dims, far) if map_options.strides is None else map_options.strides
    steps = map_options.steps or (1,) * len(dims)
    _same_rank(dims, **{"tile" if map_options.tile else "box": box}, strides=(0, *strides), steps=steps)
    tensor_map = TensorMap(
        number,
        dims,
        strides,
        box,
        steps,
        interleave,
        swizzle,
        PROMOTIONS[map_options.promotion],
        FILLS[map_options.fill],
        map_options.address,
    )
    evidence = {rule.name: evidence_of(rule, encodings) for rule in rules_on(arch_number)}
    if wrong := broken_rules(tensor_map, arch_number):
        reasons = "; ".join(f"{rule.argument}: {rule.words} ({evidence[rule.name]})" for rule in wrong)
        raise UsageError(f"the driver refuses this map. {reasons}.")
    boxes = tuple(-(-side // part) for side, part in zip(tile, box, strict=True))
    return MapPlan(tensor_map, boxes, kind, evidence, not (map_options.of or map_options.dims))


def _bits(kind: str) -> tuple[int, int, int]:
    """The number of a driver's type, and the bits of an element in global and in shared memory."""
    if kind in PACKED:
        return PACKED[kind], *PACKED_BITS[PACKED[kind]]
    number, size = DATA_TYPES[kind]
    return number, 8 * size, 8 * size


def dense_strides(dims: DimNumbers, bits: int) -> DimNumbers:
    """Strides in bytes of a tensor without gaps."""
    return tuple(bits * prod(dims[:n]) // 8 for n in range(1, len(dims)))


def fitting_box(sides: DimNumbers, bits: int, span: int) -> DimNumbers:
    """A large box whose copies fill a tile exactly: sides up to 256, rows up to the span in bytes, 0 for any.

    In all it has no more bytes than a box may have.
    """
    box: list[int] = []
    for side in sides:
        most = 8 * MOST_BYTES // (bits * prod(box)) if box else 8 * (span or MOST_BYTES) // bits
        box.append(next((n for n in range(min(side, MOST_BOX, most), 0, -1) if side % n == 0), 1))
    return tuple(box)


def _same_rank(dims: DimNumbers, **others: DimNumbers) -> None:
    for name, values in others.items():
        if len(values) != len(dims):
            raise UsageError(
                f"`{name}` has {len(values) - (name == 'strides')} numbers, for a tensor of {len(dims)} "
                f"dimensions{', whose strides are one fewer' if name == 'strides' else ''}."
            )


def evidence_of(map_rule: MapRule, encodings: Finding | None) -> str:
    """What a rule rests on, in words."""
    calls = encodings.body.calls if encodings else []
    tried = [call.result for call in calls if map_rule.name in call.rules]
    source = MANUAL if map_rule.source == MANUAL else "not in the manual"
    if not tried or encodings is None:
        return source if map_rule.source == MANUAL else f"{source}; {MEASURED} on an H200"
    refused, driver = sum(words != TAKEN for words in tried), encodings.provenance["driver"]
    alone = "" if map_rule.checked else ", so it is not checked"
    return f"{source}; driver {driver} refused {refused} of {len(tried)} maps that break it{alone}"


def cuda(planned: MapPlan) -> str:
    """The call, each line with what it says."""
    tensor_map = planned.map
    whose = "the tile alone" if planned.alone else "the tensor"
    boxes = " x ".join(map(str, planned.boxes))
    lists = [
        ("cuuint64_t dims", tensor_map.dims, f"elements of {whose}, inner side first"),
        ("cuuint64_t strides", tensor_map.strides, "bytes from row to row of it, and so on outwards"),
        ("cuuint32_t box", tensor_map.box, f"elements of one copy; {boxes} of them make the tile"),
        ("cuuint32_t steps", tensor_map.steps, "1: every element of that side"),
    ]
    strides = "strides" if tensor_map.strides else "nullptr"
    beyond = "a NaN" if tensor_map.fill else "zeros"
    lines = [
        ("alignas(128) CUtensorMap map;", "as the type in CUDA 13's cuda.h; CUDA 12's and the driver want 64"),
        *(
            (f"const {name}[] = {{{', '.join(map(str, numbers))}}};", words)
            for name, numbers, words in lists
            if numbers
        ),
        ("CUresult result = cuTensorMapEncodeTiled(", "CUDA_SUCCESS, or what is wrong"),
        (
            f"    &map, {PREFIX}DATA_TYPE_{planned.type}, {tensor_map.rank}, address,",
            f"where {whose} begins, a multiple of {tensor_map.address}",
        ),
        (f"    dims, {strides}, box, steps,", "strides are one fewer: the inner side has none"),
        (f"    {PREFIX}INTERLEAVE_{_name(INTERLEAVES, tensor_map.interleave)},", "order of elements in global memory"),
        (f"    {PREFIX}SWIZZLE_{_name(SWIZZLES, tensor_map.swizzle)},", "order of bytes in shared memory"),
        (f"    {PREFIX}L2_PROMOTION_{_name(PROMOTIONS, tensor_map.promotion)},", "what L2 fetches at least"),
        (f"    {PREFIX}FLOAT_OOB_FILL_{_name(FILLS, tensor_map.fill)});", f"what is read outside: {beyond}"),
    ]
    return "\n".join(f"{line}  // {words}" for line, words in lines)


def _name(numbers_by_name: Mapping[str, int], number: int) -> str:
    return next(name for name, n in numbers_by_name.items() if n == number)


def check_arch(name: str | None) -> str:
    """The arch; UsageError where it has no tensor maps."""
    here = arch_row(name or f"sm_{tma.LEAST_ARCH}")
    if here.number < tma.LEAST_ARCH:
        raise UsageError(f"tensor maps need sm_{tma.LEAST_ARCH} or later; {here} does not have them.")
    return here.name


def swizzles(mode: int) -> tuple[Swizzle, ...]:
    """What a mode does to byte addresses, one after the other."""
    return tma.ATOMS.get(_name(SWIZZLES, mode)) or (Swizzle(mode, 4, 3),)


@checked
def tensormap(
    kind: Annotated[
        TypeName | None,
        Option(
            "--type",
            "PTX's, such as bf16, or FLOAT32_FTZ; from sm_100 on also 16U4_ALIGN8B, 16U4_ALIGN16B, 16U6_ALIGN16B.",
            "TYPE",
            ElementType(),
        ),
    ] = None,
    *,
    tile: Annotated[
        Sizes | None, Option("--tile", "Elements of the tile in shared memory: 128x64, 2x128x64.", reads=MapTile())
    ] = None,
    box: Annotated[
        Sizes | None,
        Option("--box", "Elements of one box, instead of --tile; inner side first: 64,128.", reads=Sides()),
    ] = None,
    of: Annotated[
        Sizes | None,
        Option(
            "--of",
            "The matrix in global memory, row-major: 4096x2048. Default: the tile itself.",
            reads=MapTile("of"),
            called=("matrix", "tensor", "global"),
        ),
    ] = None,
    dims: Annotated[
        Sizes | None, Option("--dims", "Elements of the tensor, inner side first, instead of --of.", reads=Sides())
    ] = None,
    strides: Annotated[
        Sizes | None, Option("--strides", "Bytes between rows, and so on outwards. Default: no gaps.", reads=Sides())
    ] = None,
    steps: Annotated[
        Sizes | None, Option("--steps", "Element stride per dimension. Default: 1.", reads=Sides())
    ] = None,
    swizzle: Annotated[
        PlaceName,
        Option(
            "--swizzle",
            "none, 32, 64, 128: SWIZZLE_128B; from sm_100 on also 128B_ATOM_32B and its like.",
            reads=MapSwizzle(),
            shown=True,
        ),
    ] = "none",
    interleave: Annotated[
        str, Option("--interleave", "Interleave.", reads=click.Choice(list(INTERLEAVES)), shown=True)
    ] = "NONE",
    promotion: Annotated[
        str, Option("--promotion", "L2 promotion.", reads=click.Choice(list(PROMOTIONS)), shown=True)
    ] = "NONE",
    fill: Annotated[
        str,
        Option(
            "--oob-fill",
            "What fills elements outside the tensor: zeros, or a NaN.",
            reads=click.Choice(list(FILLS)),
            shown=True,
        ),
    ] = "NONE",
    address: Annotated[
        int, Option("--address", "Alignment of the tensor's address.", "BYTES", Number(1), shown=True)
    ] = 16,
    decode: Annotated[
        str | None,
        Option(
            "--decode", "Instead of a tile: the 128 bytes of a CUtensorMap, first byte first.", "HEX", NonEmptyText()
        ),
    ] = None,
    arch: OneArch = None,
    results: ResultsOption = None,
    only: OnlyOption = False,
) -> MapPlan | DecodedMap:
    """Show the arguments of cuTensorMapEncodeTiled for a tile: its boxes, the call, and where each byte lands.

    A map that the driver would refuse is refused here, with every rule that it breaks and the rule's evidence.
    --decode says what arguments a map was made with that is at hand.
    \f
    A `tile`, and the matrix that it is `of`, is (rows, columns) or "128x64", outer sides before them; all else has the
    inner side first.

    >>> import tcprobe
    >>> found = tcprobe.tensormap("bf16", tile=(128, 64), of="4096x2048", swizzle="128B").map
    >>> found.box, found.dims, found.strides
    ((64, 128), (2048, 4096), (4096,))
    """
    numbers = {"box": box, "dims": dims, "strides": strides, "steps": steps}
    if decode is not None:
        unfit = {"type": kind, "tile": tile, "of": of, **numbers}
        if given := next((name for name, value in unfit.items() if value is not None), None):
            raise UsageError(f"`decode` says all of a map: leave out `{given}`.")
        return decoded(decode)
    if kind is None:
        raise UsageError("`type` is needed, such as bf16; or `decode`, the bytes of a map.")
    options = MapOptions(
        element_type(kind),
        tile=_outer_first("tile", tile),
        of=_outer_first("of", of),
        **{name: None if side is None else sizes(name, side) for name, side in numbers.items()},
        interleave=interleave,
        swizzle=map_mode(place(swizzle)),
        promotion=promotion,
        fill=fill,
        address=whole("address", address),
    )
    on, folders = check_arch(arch_name(arch)), layers(results, only)
    findings = tensor_maps.newest(folders, on) or tensor_maps.newest(folders, tensor_maps.BORROWED)
    planned = plan(options, findings.get(ENCODINGS), arch_row(on).number)
    return replace(planned, arch=on, rests_on=tensor_maps.rests_on(folders, on))


def _outer_first(name: str, given: Sizes | None) -> DimNumbers | None:
    return map_tile(given, name) if isinstance(given, str) else None if given is None else sizes(name, given)


PRINTED = {"": MapPlanAnswer, "--decode": DecodedAnswer}


@command(tensormap, short="The tensor map of a tile: arguments, and what the driver checks.", json=PRINTED)
def print_tensormap(planned: MapPlan | DecodedMap, *, as_json: JsonOption = False) -> None:
    """The map in words, or as JSON."""
    print_answer(planned, as_json)
