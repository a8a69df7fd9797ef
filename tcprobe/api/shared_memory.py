"""What `import tcprobe` gives for tiles in shared memory: conflicts, paths, descriptors, tensor maps, swizzles.

>>> import tcprobe
>>> [cost.wavefronts for cost in tcprobe.banks(tile="64x64", kind="f16", access="st.shared.b128@rows").costs]
[64]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, SupportsIndex

from tcprobe.api.functions import (
    __getattr__,  # noqa: F401  # questions have their own files
    cell_of,
)
from tcprobe.errors import UsageError
from tcprobe.question.arguments import (
    ArchName,
    PlaceName,
    Sizes,
    TypeName,
    addresses,
    arch_name,
    checked,
    element_type,
    place,
    sizes,
    whole,
    word,
)
from tcprobe.store.cell import Cell
from tcprobe.store.folders import layers

if TYPE_CHECKING:
    from tcprobe.ask.descriptor import SharedTile
    from tcprobe.ask.path import PathPlan
    from tcprobe.ask.path.operand import OperandPlan
    from tcprobe.ask.tcgen05_descriptor import Tcgen05Tile
    from tcprobe.ask.tile_answer import TileAnswer
    from tcprobe.isa.bit_fields import DecodedWord
    from tcprobe.layout.banks import Cost
    from tcprobe.layout.descriptor import Descriptor


@checked
def banks(
    name: str | Cell | None = None,
    *,
    tile: Sizes | None = None,
    access: str | Sequence[str] = (),
    lane_addresses: str | Sequence[SupportsIndex | None] | None = None,
    source_addresses: str | Sequence[SupportsIndex | None] | None = None,
    kind: TypeName | None = None,
    contiguous: str = "row",
    placed: PlaceName = "plain",
    propose: bool = False,
    arch: ArchName | None = None,
) -> TileAnswer | Cost:
    """Bank conflicts: of a `tile` (rows, columns) with its accesses, or of the addresses of 32 lanes.

    `name` is the fragment whose slots the accesses walk, `kind` the element type where there is none; `placed` is
    plain, pad:16, 128B or sw:3,4,3. With `propose` the answer has the smallest swizzle and padding without conflicts.
    `lane_addresses` are an expression in lane, or 32 byte addresses (None: an idle lane); the answer has wavefronts.
    `source_addresses` say likewise where cp.async reads global memory.
    """
    from tcprobe.ask.bank_rules import rules_for

    rules = rules_for(arch_name(arch), layers(None))
    accesses = [access] if isinstance(access, str) else list(access)
    if tile is None:
        from tcprobe.ask.bank_patterns import check_pattern, judge_patterns
        from tcprobe.isa.shared_memory import access as access_row

        if lane_addresses is None or len(accesses) != 1:
            raise UsageError("give a tile and its accesses, or lane_addresses and one access.")
        if (name, kind, contiguous, placed, propose) != (None, None, "row", "plain", False):
            raise UsageError("`name`, `kind`, `contiguous`, `placed` and `propose` are for a tile.")
        lanes = _lanes("lane_addresses", lane_addresses)
        pattern = check_pattern(access_row(accesses[0]), lanes, _lanes("source_addresses", source_addresses))
        [(cost, _)] = judge_patterns([pattern], lambda _: rules)
        return cost
    if (lane_addresses, source_addresses) != (None, None):
        raise UsageError("give a tile and its accesses, or lane_addresses and one access.")
    if not accesses:
        raise UsageError("no accesses are given: access=['cp.async.16', 'ldmatrix.x4'].")
    from tcprobe.ask.bank_access import parse_access, slots_of, walk
    from tcprobe.ask.tile import parse_shared, parse_tile
    from tcprobe.ask.tile_answer import answer

    cell = cell_of(name, arch) if name is not None else None
    if cell is None and kind is None:
        raise UsageError("a tile needs the type of its elements: kind='f16', or a fragment.")
    type_ = element_type(kind) if kind is not None else cell.fragment.type if cell else ""
    parsed_tile = parse_tile(_by("tile", tile), type_, contiguous)
    walks = [walk(parse_access(text), parsed_tile, slots_of(cell) if cell else None) for text in accesses]
    return answer(parsed_tile, parse_shared(place(placed)), walks, rules, propose)


@checked
def path(
    name: str | Cell,
    tile: Sizes,
    *,
    contiguous: str = "row",
    placed: PlaceName = "plain",
    access: str | None = None,
    ld: int | None = None,
    fill: str | None = None,
    kind: TypeName | None = None,
    arch: ArchName | None = None,
) -> PathPlan | OperandPlan:
    """The proven way of a `tile` (rows, columns) from global through shared memory into a fragment, or back.

    Of an operand behind a descriptor, a_smem or b_smem of a wgmma, into shared memory. `kind` is the elements' type in
    memory, where it is not the fragment's.
    """
    from tcprobe.ask.path import PathOptions, request
    from tcprobe.ask.path import path as planned
    from tcprobe.isa.names import resolve

    in_memory, stride = None if kind is None else element_type(kind), None if ld is None else whole("ld", ld)
    by, how = (None if text is None else word(name, text) for name, text in (("access", access), ("fill", fill)))
    options = PathOptions(_by("tile", tile), contiguous, place(placed), by, stride, how, in_memory)
    if isinstance(name, str) and (meaning := resolve(name)).shared:
        from tcprobe.ask.path.operand import operand_path

        return operand_path(meaning.shared_operand, layers(None), options, arch_name(arch))
    return planned(request(cell_of(name, arch), options))


@checked
def descriptor(
    value: int | None = None,
    *,
    tile: Sizes | None = None,
    kind: TypeName | None = None,
    major: str = "k",
    swizzle: PlaceName = "128",
    instruction: str | None = None,
    tcgen05: bool = False,
) -> SharedTile | Tcgen05Tile | Descriptor | DecodedWord:
    """The shared memory descriptor of a `tile` of (lines, k) elements for wgmma, or tcgen05; of 64 bits the fields.

    The type is `kind`, or that of a wgmma or its operand, `instruction`; bf16 without both. What a `value` of 64 bits
    is for, its version bits say.

    >>> import tcprobe
    >>> hex(tcprobe.descriptor(tile=(128, 64), kind="bf16").descriptor.encode())
    '0x4000004000010000'
    >>> tcprobe.descriptor(0x4000004000010000).sbo
    1024
    """
    from tcprobe.ask import descriptor as ask
    from tcprobe.layout import spelling
    from tcprobe.layout import tcgen05_descriptor as tcgen05_word
    from tcprobe.layout.descriptor import decode

    if value is not None:
        bits = whole("value", value)
        if (tile, kind, major, swizzle, instruction, tcgen05) != (None, None, "k", "128", None, False):
            raise UsageError("a descriptor's value holds every field: give the value alone, or a tile.")
        return tcgen05_word.read(bits) if tcgen05_word.is_tcgen05(bits) else decode(bits)
    sides = sizes("tile", tile, 2) if tile is not None else ()
    if len(sides) != 2:
        raise UsageError("give a value of 64 bits, or a tile of (lines, k) and its kind.")
    lines, k = sides
    of_type, span = None if kind is None else element_type(kind), spelling.swizzle(place(swizzle)).span
    if tcgen05:
        from tcprobe.ask import tcgen05_descriptor

        if instruction is not None:
            raise UsageError("`instruction` is for wgmma: give `kind` with `tcgen05`.")
        return tcgen05_descriptor.Tcgen05Tile(tcgen05_descriptor.tile((lines, k), of_type or "bf16", major, span))
    block = ask.block_of(instruction, of_type) if instruction else (of_type or "bf16", min(64, lines), 32)
    return ask.tile((lines, k), block[0], major, span, block[1:])


def _by(name: str, tile: Sizes) -> str:
    return "x".join(map(str, sizes(name, tile, 2)))


def _lanes(name: str, python_addresses: object) -> list[int | None] | None:
    """An address a lane, of an expression in lane or of numbers; None where the parameter is not given."""
    from tcprobe.ask.bank_patterns import lanes_of

    if python_addresses is None:
        return None
    return lanes_of(python_addresses) if isinstance(python_addresses, str) else addresses(name, python_addresses)
