"""What is said of a layout's text or a CTA's tile beside its map: which fragment it is, or nearly is; its warps.

>>> from tcprobe.store.choose import layers
>>> from tcprobe.store.names import find_cell
>>> cell = find_cell("((4,8),(2,2,2)):((32,1),(16,8,128)) over 16x16", None, layers(None)).cell
>>> next(identity(cell))
'this is A of mma.m16n8k16.row.col.f16.f16.f16.f16 over 16 x 16, and 18 other fragments'
>>> tile = find_cell("mma.m16n8k16.row.col.f32.f16.f16.f32.d warps 2x2 over 32x32x16", None, layers(None)).cell
>>> print("\\n".join(warp_picture(tile.table, 80)))  # doctest: +NORMALIZE_WHITESPACE
              0-7   8-15  16-23  24-31
   0-15         0      2      0      2
  16-31         1      3      1      3
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tcprobe.ask.diagnose import diagnose
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP
from tcprobe.isa.fragment import Fragment
from tcprobe.layout.arrays import Ints
from tcprobe.layout.grid import grid_lines
from tcprobe.layout.table import Table
from tcprobe.notation.places import REPEATED
from tcprobe.store.cell import find
from tcprobe.store.written import WrittenCell, WrittenFragment
from tcprobe.values import Json

MOST_DIAGNOSED = 1 << 12  # slots of a table that is compared with near ones
MOST_NEAR = 12  # tables that are tried
MOST_PICTURE = 64  # rows and columns of blocks of a picture
SECTOR = 32  # bytes of global memory that are moved together


def lines(cell: WrittenCell) -> Iterator[str]:
    """What is said of a text: which fragment it is or nearly is, how a tile goes on over warps and repetitions."""
    fragment = cell.fragment
    assert isinstance(fragment, WrittenFragment)
    if cell.tiling is not None:
        yield from tile_lines(cell)
    elif not fragment.memory:
        yield from identity(cell)
        if cell.vector:
            yield from copy_lines(cell)
        if fragment.threads > WARP:
            yield f"lane is the thread of the CTA, 0 to {fragment.threads - 1}; its warp is lane / {WARP}"


def identity(cell: WrittenCell) -> Iterator[str]:
    """Which fragment has this very table; where none has, the nearest one and what makes them agree."""
    fragment, alike = cell.fragment, cell.alike
    extent = f"{fragment.rows} x {fragment.cols}"
    if alike:
        meant = [id_ for id_ in alike if _may_be(cell, inventory.fragment(id_))]
        row = inventory.fragment(best_named(meant or alike))
        turned = (
            " as N x K" if (row.rows, row.cols) != (fragment.rows, fragment.cols) or _is_turned(cell, row.id) else ""
        )
        others = len(alike) - 1
        more = f", and {others} other fragment{'s' * (others > 1)}" if others else ""
        verb = "this is" if meant else "every element is where it is in"
        yield f"{verb} {row.label} of {row.id.rpartition('.')[0]} over {extent}{turned}{more}"
    elif (near := nearest(cell)) is not None:
        id_, words = near
        yield f"no fragment has this layout; nearest is {id_}: {'; '.join(words)}"


def _may_be(cell: WrittenCell, other: Fragment) -> bool:
    """Whether a fragment with a text's table is of the operand and of the multiplies that the text says."""
    own = cell.fragment.label.lower()
    of_operand = not own or other.operand in (("c", "d") if own in ("c", "d") else (own,))
    return of_operand and (not cell.family or other.family.startswith("wgmma") == (cell.family == "wgmma"))


def _is_turned(cell: WrittenCell, id_: str) -> bool:
    return id_ not in cell.layers.sharing(cell.table.id, cell.arch, cell.fragment)


def best_named(ids: Sequence[str]) -> str:
    """The id that says most to a reader: a multiply's before that of a load or of wmma."""
    return min(ids, key=lambda id_: (not id_.startswith("mma.m"), not id_.startswith("wgmma"), ids.index(id_)))


def nearest(cell: WrittenCell) -> tuple[str, list[str]] | None:
    """A fragment of the same size whose table this would be after some change, and the change in words."""
    fragment, table = cell.fragment, cell.table
    if table.points > MOST_DIAGNOSED:
        return None
    tried: set[str] = set()
    for other in inventory.fragments().values():
        sizes = {(other.rows, other.cols), (other.cols, other.rows)}
        if (other.threads, other.elements) != (table.threads, table.elements) or not other.whole or other.products > 1:
            continue
        if (fragment.rows, fragment.cols) not in sizes:
            continue
        layout = cell.layers.layout(other, cell.arch)
        if layout is None or layout in tried:
            continue
        tried.add(layout)
        found = find(other, cell.arch, cell.layers)
        if found and (words := diagnose(table, other, found.table)):
            return other.id, words
        if len(tried) >= MOST_NEAR:
            break
    return None


def tile_lines(cell: WrittenCell) -> Iterator[str]:
    """Atoms x warps x repetitions of a tile, what lane and i count, and CuTe's text of it."""
    fragment, tiling = cell.fragment, cell.tiling
    assert isinstance(fragment, WrittenFragment)
    assert tiling is not None
    assert fragment.atom is not None
    first, second = REPEATED[fragment.operand]
    repeats = {dim: tiling.tile[dim] // (tiling.atom[dim] * tiling.warps.sides[dim]) for dim in (first, second)}
    unit = {WARP: "warps", 128: "warpgroups"}.get(fragment.lanes, "atoms")
    yield (
        f"{tiling.warps.count} {unit} of {fragment.lanes} threads, {tiling.warps} along m, n, x {repeats[first]} "
        f"repetitions along {'mnk'[first]}, then {repeats[second]} along {'mnk'[second]}, "
        f"of {fragment.atom.rows} x {fragment.atom.cols}"
    )
    yield (
        f"lane is the thread of the CTA, 0 to {fragment.threads - 1}; its warp is lane / {WARP}; "
        f"i is that of the multiply + {fragment.atom.elements} x repetition"
    )
    yield f"CuTe: {cute_text(cell)}"


def cute_text(cell: WrittenCell) -> str:
    """make_tiled_mma of a tile, by the atom that CuTe has, or by PTX's name."""
    from tcprobe.isa.inventory import instructions
    from tcprobe.notation import cute
    from tcprobe.notation.tokens import Token
    from tcprobe.references.cute import atoms, name_of

    fragment, tiling = cell.fragment, cell.tiling
    assert isinstance(fragment, WrittenFragment)
    assert tiling is not None
    row = instructions().get(fragment.experiment)
    stem = name_of(row) if row else ""
    named = (name for atom in atoms() for name in atom.names if name.partition("_")[2] == stem)
    atom = next(named, row.id if row else fragment.instruction)
    made = cute.TiledMma(atom, tiling.warps.layout, tiling.permutation, Token("", 1))
    return str(made)


def warp_map(table: Table) -> list[list[frozenset[int]]]:
    """By row and column the warps that hold the element."""
    rows, cols = table.extent["row"], table.extent["col"]
    held: list[list[set[int]]] = [[set() for _ in range(cols)] for _ in range(rows)]
    elements = table.elements
    for slot, cell in enumerate(table.cells):
        if cell is not None:
            held[cell[0]][cell[1]].add(slot // elements // WARP)
    return [[frozenset(each) for each in row] for row in held]


def blocks(held: Sequence[Sequence[object]]) -> tuple[list[tuple[int, int]], list[tuple[int, int]], list[list[object]]]:
    """Runs of equal rows and of equal columns, and what each block of both has."""
    row_runs = _runs([tuple(row) for row in held])
    col_runs = _runs([tuple(held[first][col] for first, _ in row_runs) for col in range(len(held[0]))])
    return row_runs, col_runs, [[held[r][c] for c, _ in col_runs] for r, _ in row_runs]


def _runs(keys: Sequence[tuple[object, ...]]) -> list[tuple[int, int]]:
    starts = [0, *(n for n in range(1, len(keys)) if keys[n] != keys[n - 1])]
    return [(start, end - 1) for start, end in zip(starts, [*starts[1:], len(keys)], strict=True)]


def warp_picture(table: Table, width: int) -> Iterator[str]:
    """The warps of each block of the tile, as lines that fit a width."""
    row_runs, col_runs, cells = blocks(warp_map(table))
    texts = [[",".join(map(str, sorted(each))) or "-" for each in row] for row in cells[:MOST_PICTURE]]  # type: ignore[call-overload]
    heads = [_span(*run) for run in col_runs]
    yield from grid_lines(texts, heads, width, [_span(*run) for run in row_runs[:MOST_PICTURE]])
    if len(row_runs) > MOST_PICTURE:
        yield f"  and {len(row_runs) - MOST_PICTURE} more rows of blocks"


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def copy_lines(cell: WrittenCell) -> Iterator[str]:
    """What an instruction of a copy moves, and how many sectors of memory it touches, rows or columns contiguous."""
    facts = copy_facts(cell)
    for name, words in (("row", "rows"), ("col", "columns")) if facts else ():
        least, most = (facts or {})[name]["sectors"] or (None, None)
        if least is None:
            yield f"with {words} contiguous a thread's {cell.vector} bits do not lie side by side"
        else:
            touched = f"{least}" if least == most else f"{least} to {most}"
            yield (
                f"with {words} contiguous an instruction of a warp moves {cell.vector} bits a thread, "
                f"of {touched} sectors of {SECTOR} bytes"
            )


def copy_facts(cell: WrittenCell) -> Json | None:
    """Of a copy: sectors of row-major and of column-major memory that an instruction of a warp touches."""
    fragment, table, bits = cell.fragment, cell.table, cell.vector
    width = fragment.slot_bits
    count = max(1, bits // width)
    if table.elements % count or table.threads % WARP:
        return None
    row, col = (np.array(table.values[name], np.int64).reshape(table.threads, -1) for name in ("row", "col"))
    facts: Json = {"vector_bits": bits}
    for name, (line, place, pitch) in {
        "row": (row, col, fragment.cols),
        "col": (col, row, fragment.rows),
    }.items():
        at = (line * pitch + place) * width // 8
        pieces = at.reshape(table.threads, -1, count)
        steps = np.arange(count) * width // 8
        whole = bool((pieces == pieces[:, :, :1] + steps).all())
        first = pieces[:, :, 0].reshape(-1, WARP, pieces.shape[1]).transpose(0, 2, 1).reshape(-1, WARP)
        facts[name] = {"contiguous": whole, "sectors": _touched(first, count * width // 8, SECTOR) if whole else None}
    return facts


def _touched(first: Ints, size: int, unit: int) -> list[int]:
    """Least and most units of memory that one instruction of a warp touches."""
    steps = np.arange(0, max(size, 1), unit if size > unit else max(size, 1))
    touched = [
        len({int(at + step) // unit for at in warp for step in steps}) for warp in np.unique(first, axis=0)[:4096]
    ]
    return [min(touched), max(touched)]
