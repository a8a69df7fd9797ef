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
    from tcprobe.ask.path import PathPlan
    from tcprobe.ask.path.operand import OperandPlan
    from tcprobe.ask.tile_answer import TileAnswer
    from tcprobe.layout.banks import Cost


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


def _by(name: str, tile: Sizes) -> str:
    return "x".join(map(str, sizes(name, tile, 2)))


def _lanes(name: str, python_addresses: object) -> list[int | None] | None:
    """An address a lane, of an expression in lane or of numbers; None where the parameter is not given."""
    from tcprobe.ask.bank_patterns import lanes_of

    if python_addresses is None:
        return None
    return lanes_of(python_addresses) if isinstance(python_addresses, str) else addresses(name, python_addresses)
