"""What `import tcprobe` gives: a function a command, which takes names as the commands do and returns values.

>>> import tcprobe
>>> tcprobe.arch("h100").name, tcprobe.fragment("wmma 16x16x16 accumulator float", arch="a100").at(lane=5, i=2)
('sm_90', (9, 2))
>>> d, a = "mma.m16n8k16.row.col.f32.f16.f16.f32.d", "mma.m16n8k16.row.col.f32.f16.f16.f32.a"
>>> tcprobe.convert(d, a).costs
{'cvt': 4}
>>> [cost.wavefronts for cost in tcprobe.banks(a, tile=(64, 64), access=["ldmatrix.x4"]).costs]
[512]

All raise `tcprobe.errors.UsageError` for a name or number that means nothing, with what to do. `arch` is sm_90, 9.0,
h100 or hopper; without one the arch whose measurement counts most. `results` is a folder that takes precedence over the
published tables, with `only` alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tcprobe.api.values import FragmentAnswer, MultiplyAnswer
from tcprobe.errors import UsageError
from tcprobe.isa.arch import Arch
from tcprobe.isa.arch import arch as named
from tcprobe.store import names
from tcprobe.store.cell import Cell, selection
from tcprobe.store.folders import layers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tcprobe.ask.against import Against
    from tcprobe.ask.compare import Verdict
    from tcprobe.ask.convert import Conversion
    from tcprobe.ask.cost import InstructionCost
    from tcprobe.ask.descriptor import SharedTile
    from tcprobe.ask.numerics import FormNumerics
    from tcprobe.ask.path import PathPlan
    from tcprobe.ask.reduce import Reduction
    from tcprobe.ask.reduce.mask import Masked
    from tcprobe.ask.swizzle import Answer
    from tcprobe.ask.tensor_map import MapPlan, Numbers
    from tcprobe.ask.tile_answer import TileAnswer
    from tcprobe.kernel.gemm import GemmKernel
    from tcprobe.layout.banks import Cost
    from tcprobe.layout.descriptor import Descriptor
    from tcprobe.layout.swizzle import Swizzle


def fragment(
    name: str, arch: str | None = None, selector: int | None = None, results: Path | None = None, only: bool = False
) -> FragmentAnswer:
    """The table of the fragment that `name` means; of several that share one the first.

    >>> import tcprobe
    >>> tcprobe.fragment("mma m16n8k16 bf16 a").bases["register"]
    [(0, 1), (8, 0), (0, 8)]
    """
    cell = names.meant(name, arch, layers(results, only)).cell
    return FragmentAnswer.from_cell(cell if selector is None else selection(cell, selector))


def instruction(name: str, arch: str | None = None, results: Path | None = None, only: bool = False) -> MultiplyAnswer:
    """The multiply that `name` means, with the tables of its operands."""
    row, cells, _ = names.multiply(name, arch, layers(results, only))
    return MultiplyAnswer(row, {operand: FragmentAnswer.from_cell(cell) for operand, cell in cells.items()})


def arch(name: str) -> Arch:
    """An arch by any of its names: sm_90, 90a, 9.0, h100, hopper."""
    return named(name)


def banks(
    name: str | Cell | None = None,
    *,
    tile: Numbers | None = None,
    access: str | Sequence[str] = (),
    lane_addresses: str | Sequence[int | None] | None = None,
    kind: str | None = None,
    contiguous: str = "row",
    placed: str = "plain",
    propose: bool = False,
    arch: str | None = None,
) -> TileAnswer | Cost:
    """Bank conflicts: of a `tile` (rows, columns) with its accesses, or of the addresses of 32 lanes.

    `name` is the fragment whose slots the accesses walk, `kind` the element type where there is none; `placed` is
    plain, pad:16, 128B or sw:3,4,3. With `propose` the answer has the smallest swizzle and padding without conflicts.
    `lane_addresses` are an expression in lane, or 32 byte addresses (None: an idle lane); the answer has wavefronts.
    """
    from tcprobe.ask.bank_rules import rules_for

    rules = rules_for(arch, layers(None))
    accesses = [access] if isinstance(access, str) else list(access)
    if tile is not None and lane_addresses is not None:
        raise UsageError("give a tile, or lane_addresses.")
    if tile is None:
        from tcprobe.ask.bank_patterns import check_pattern, judge_patterns, lanes_of
        from tcprobe.isa.shared_memory import access as access_row

        if lane_addresses is None or len(accesses) != 1:
            raise UsageError("give a tile and its accesses, or lane_addresses and one access.")
        if name is not None or kind is not None or (contiguous, placed, propose) != ("row", "plain", False):
            raise UsageError("name, kind, contiguous, placed and propose are for a tile, not for lane_addresses.")
        lanes = lanes_of(lane_addresses) if isinstance(lane_addresses, str) else list(lane_addresses)
        [(cost, _)] = judge_patterns([check_pattern(access_row(accesses[0]), lanes)], lambda _: rules)
        return cost
    if not accesses:
        raise UsageError("no accesses are given: access=['cp.async.16', 'ldmatrix.x4'].")
    from tcprobe.ask.bank_access import parse_access, slots_of, walk
    from tcprobe.ask.tile import parse_shared, parse_tile
    from tcprobe.ask.tile_answer import answer

    cell = _cell(name, arch) if name is not None else None
    if cell is None and kind is None:
        raise UsageError("a tile needs the type of its elements: kind='f16', or a fragment.")
    parsed_tile = parse_tile(_by(tile), kind or (cell.fragment.type if cell else ""), contiguous)
    walks = [walk(parse_access(text), parsed_tile, slots_of(cell) if cell else None) for text in accesses]
    return answer(parsed_tile, parse_shared(_spelled(placed)), walks, rules, propose)


def path(
    name: str | Cell,
    tile: Numbers,
    *,
    contiguous: str = "row",
    placed: str = "plain",
    access: str | None = None,
    ld: int | None = None,
    fill: str | None = None,
    arch: str | None = None,
) -> PathPlan:
    """The proven way of a `tile` (rows, columns) from global through shared memory into a fragment, or back."""
    from tcprobe.ask.path import PathOptions, request
    from tcprobe.ask.path import path as planned

    return planned(request(_cell(name, arch), PathOptions(_by(tile), contiguous, _spelled(placed), access, ld, fill)))


def descriptor(
    value: int | None = None,
    *,
    tile: Numbers | None = None,
    kind: str = "bf16",
    major: str = "k",
    swizzle: str = "128",
) -> SharedTile | Descriptor:
    """The shared memory descriptor of a `tile` of (lines, k) elements for wgmma; of a `value` of 64 bits its fields.

    >>> import tcprobe
    >>> hex(tcprobe.descriptor(tile=(128, 64), kind="bf16").descriptor.encode())
    '0x4000004000010000'
    >>> tcprobe.descriptor(0x4000004000010000).sbo
    1024
    """
    from tcprobe.ask import descriptor as ask
    from tcprobe.layout import spelling
    from tcprobe.layout.descriptor import decode

    if value is not None:
        if not isinstance(value, int) or isinstance(value, bool):
            raise UsageError(f"a descriptor is a number of 64 bits, not {type(value).__name__}.")
        if tile is not None or (kind, major, swizzle) != ("bf16", "k", "128"):
            raise UsageError("a descriptor's value holds every field: give the value alone, or a tile.")
        return decode(value)
    if tile is None or len(tile) != 2:
        raise UsageError("give a value of 64 bits, or a tile of (lines, k) and its kind.")
    return ask.tile(
        (tile[0], tile[1]), spelling.element_type(kind), major, spelling.swizzle(swizzle).span, (min(64, tile[0]), 32)
    )


def tensormap(kind: str, *, arch: str | None = None, **options: Any) -> MapPlan:
    """The arguments of cuTensorMapEncodeTiled; `options` are the fields of `tcprobe.ask.tensor_map.MapOptions`.

    UsageError where the driver would refuse it, by every rule that is broken.

    >>> import tcprobe
    >>> tcprobe.tensormap("bf16", tile=(64, 128), swizzle="128B").boxes
    (1, 1)
    """
    from tcprobe.ask import tensor_map as ask
    from tcprobe.store import tensor_maps
    from tcprobe.store.kinds.tensor_maps import ENCODINGS

    arch_name, folders = ask.check_arch(arch), layers(None)
    findings = tensor_maps.newest(folders, arch_name) or tensor_maps.newest(folders, tensor_maps.BORROWED)
    return ask.plan(ask.MapOptions(kind, **options), findings.get(ENCODINGS), named(arch_name).number)


def swizzle(what: str | NDArray[np.int64], bits: int | None = None) -> Swizzle | Answer:
    """A swizzle by name, which maps offsets; of an array of offsets by [row, col] the layout behind it, proven.

    >>> import tcprobe
    >>> tcprobe.swizzle("3,4,3")(1024 + 16)
    1040
    """
    from tcprobe.layout import spelling

    if isinstance(what, str):
        if bits is not None:
            raise UsageError("bits are those of the elements of an array; a swizzle by name maps any offsets.")
        return spelling.swizzle(what).swizzle
    import numpy as np

    from tcprobe.ask.swizzle import layout_of
    from tcprobe.layout.address import AddressMap

    if not isinstance(what, np.ndarray) or what.ndim != 2 or not what.size or what.dtype.kind not in "iu":
        raise UsageError("offsets are a NumPy array of whole numbers by [row, col].")
    if what.min() < 0 or (bits is not None and (bits < 1 or bits & (bits - 1) or bits > 128)):
        raise UsageError("offsets are 0 or more, in elements of 1, 2, 4 to 128 bits.")
    rows, cols = np.indices(what.shape)
    return layout_of(AddressMap.of(rows.ravel().tolist(), cols.ravel().tolist(), what.ravel().tolist()), bits)


def convert(
    from_: str | Cell,
    into: str | Cell,
    *,
    transpose: bool = False,
    permute_k: bool = False,
    arch: str | None = None,
) -> Conversion:
    """How to turn fragments `from_` into fragments `into` that hold the same matrix: moves, cost, code."""
    from tcprobe.ask.convert import convert as converted

    first = _cell(from_, arch)
    return converted(first, _cell(into, first.arch), transpose, permute_k)


def reduce(
    name: str | Cell,
    over: str | None = None,
    op: str = "sum",
    *,
    mask: str | None = None,
    fill: str | None = None,
    arch: str | None = None,
) -> Reduction | Masked:
    """Combine each row or column of a fragment; or with `mask` and `fill` change its elements by row and col: the code.

    >>> import tcprobe
    >>> tcprobe.reduce("mma m16n8k16 f32 f16 d", over="row", op="max").plan.groups
    ((0, 1), (2, 3))
    """
    cell = _cell(name, arch)
    if over is not None and (mask, fill) != (None, None):
        raise UsageError("give `over`, or `mask` and `fill`, not both.")
    if over is None and op != "sum":
        raise UsageError("`op` needs `over`.")
    if over is None:
        from tcprobe.ask.reduce.mask import mask_fragment

        return mask_fragment(cell, mask, fill, "fill" if mask is None else "mask")
    from tcprobe.ask.reduce import reduce as reduced

    return reduced(cell, over, op)


def compare(name: str | Cell, table: Path | None = None, arch: str | None = None) -> list[Verdict] | Against:
    """What others state of a fragment, a verdict each; or how a CSV file of lane,i,row,col compares with it.

    >>> import tcprobe
    >>> [(one.reference, one.verdict) for one in tcprobe.compare("mma m16n8k16 bf16 a")][:2]
    [('PTX ISA', 'confirmed'), ('CuTe', 'confirmed')]
    """
    from tcprobe.ask.against import against
    from tcprobe.ask.compare import verdicts
    from tcprobe.layout.csv import read_csv

    cell = _cell(name, arch)
    if table is not None:
        return against(read_csv(table), cell.fragment, cell.table, cell.layers)
    return verdicts(cell.fragment, cell.measured) if cell.measured else []


def cost(name: str, arch: str | None = None) -> list[InstructionCost]:
    """What instructions cost in cycles, those that a name, words, a pattern or an opcode mean, measured."""
    from tcprobe.ask.cost import costs

    return costs([name], arch, layers(None))


def numerics(name: str, arch: str | None = None) -> FormNumerics:
    """What a multiply computes: groups, what is cut, rounding; `tcprobe.numerics.multiply` computes it.

    >>> import tcprobe
    >>> tcprobe.numerics("mma.m16n8k16.row.col.f32.f16.f16.f32").arch
    'sm_90'
    """
    from tcprobe.ask.numerics import answer

    folders = layers(None)
    return answer(names.resolve(name, folders).instruction, arch, folders)


def kernel(arch: str, kind: str, **options: Any) -> GemmKernel:
    """A whole GEMM in one file of CUDA; `options` are the fields of `tcprobe.kernel.gemm.GemmOptions`.

    >>> import tcprobe
    >>> made = tcprobe.kernel("sm_80", "f16", tile=(128, 128, 64))
    >>> made.block, "__global__" in made.source
    ((128, 1, 1), True)
    """
    from tcprobe.kernel.gemm import GemmOptions, gemm

    return gemm(GemmOptions(named(arch).name, kind, **options), layers(None))


def _cell(name: str | Cell, arch: str | None) -> Cell:
    if isinstance(name, Cell) and arch is not None and named(arch).name != name.arch:
        raise UsageError(f"the table is that of {name.arch}, not of {arch}: give the arch once.")
    return name if isinstance(name, Cell) else fragment(name, arch)


def _by(tile: Numbers) -> str:
    return "x".join(map(str, tile))


def _spelled(placed: str) -> str:
    """A place in shared memory, a swizzle in its one spelling."""
    from tcprobe.layout import spelling

    return str(spelling.swizzle(placed)) if spelling.is_swizzle(placed) else placed
