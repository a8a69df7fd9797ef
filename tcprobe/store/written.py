"""What a layout's text means: a fragment with the table that follows from it, alone or from a measured multiply's.

>>> from tcprobe.store.choose import layers
>>> from tcprobe.store.written import find_cell
>>> found = find_cell("((4,8),(2,2,2)):((32,1),(16,8,128)) over 16x16 of f16", None, layers(None)).cell
>>> found.table.at(lane=12, i=5)
{'row': 3, 'col': 9}
>>> tile = find_cell("mma.m16n8k16.row.col.f32.f16.f16.f32.d warps 2x4 over 128x128x64", None, layers(None)).cell
>>> tile.table.threads, tile.table.elements, tile.table.holders(row=35, col=9)
(256, 64, [(76, 5)])

A tile of multiplies rests on the measured table of one; a layout on its text alone.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from tcprobe.errors import DataError, UsageError
from tcprobe.isa import arch as archs
from tcprobe.isa.arch import WARP
from tcprobe.isa.dtypes import DTYPES
from tcprobe.isa.fragment import Fragment, Shape
from tcprobe.isa.operand import WHOLE, Role
from tcprobe.layout.swizzle import sizes_written, type_named
from tcprobe.layout.table import Table, slots
from tcprobe.notation import Spelled, cute, is_file, places, spelled, triton
from tcprobe.notation.places import DIMENSIONS, CopySide, Places, Tiling, Warps
from tcprobe.references import Claim
from tcprobe.references.cute import L, apply, atoms, copy_atoms, modes, size
from tcprobe.store import names
from tcprobe.store.cell import Cell, find
from tcprobe.store.choose import Layers
from tcprobe.text import quoted

if TYPE_CHECKING:
    from collections.abc import Callable

WRITTEN = "written"  # the source, and the method, of a layout that is only a text
UNTYPED = "b32"  # of elements whose type no text says: each in a register of its own
ROLES = {"a": Role.FACTOR, "b": Role.FACTOR, "c": Role.ACCUMULATOR, "d": Role.RESULT}
MOST_TEXT = 20_000
FAMILY = "layout"


@dataclass(frozen=True, kw_only=True)
class WrittenFragment(Fragment):
    """A fragment that a text describes; `make` gives its table on an arch, of `held` elements a thread.

    `atom` is the multiply's operand that a tile repeats, None of a layout; `lanes` how many threads an atom has. `said`
    is whether the text says of which operand it is.
    """

    make: Callable[[str | None, Layers], WrittenCell] = field(compare=False)
    held: int
    atom: Fragment | None = None
    lanes: int = WARP
    memory: bool = False
    said: bool = True

    def __post_init__(self) -> None:
        """Nothing: what a text describes need not fill registers, and holds elements as often as it says."""

    @cached_property
    def elements(self) -> int:
        """Slots per thread."""
        return self.held

    @property
    def label(self) -> str:
        """The operand, where the text says one."""
        return super().label if self.said else ""


@dataclass(frozen=True, repr=False)
class WrittenCell(Cell):
    """The cell of a text: `words` say in what notation it is, `tiling` what a tile is made of.

    `family` is that of the multiply that the text is for, mma or wgmma, where it says one.
    """

    words: str = ""
    tiling: Tiling | None = None
    vector: int = field(default=0, kw_only=True)  # of a copy, the bits that a thread moves at once
    turned: bool = field(default=False, kw_only=True)  # whether a text of CuTe gives B as N x K
    family: str = field(default="", kw_only=True)

    def in_cta(self, thread: int) -> dict[str, int]:
        """A thread of the CTA: its number in its warp, or its multiply's warpgroup, in the CTA, and its warp."""
        fragment = self.fragment
        assert isinstance(fragment, WrittenFragment)
        return {"lane": thread % fragment.lanes, "thread": thread, "warp": thread // WARP}

    def of_copy(self, bits: int) -> WrittenCell:
        """The same of a copy of so many bits at once."""
        fragment = self.fragment
        assert isinstance(fragment, WrittenFragment)

        def make(name: str | None, folders: Layers) -> WrittenCell:
            cell = fragment.make(name, folders)
            return replace(cell, fragment=made, vector=bits)

        made = replace(fragment, make=make)
        return replace(self, fragment=made, vector=bits)

    @property
    def in_memory(self) -> bool:
        """Whether it is a layout of memory, whose slots are element offsets."""
        assert isinstance(self.fragment, WrittenFragment)
        return self.fragment.memory

    @property
    def untyped(self) -> bool:
        """Whether nobody says of what type the elements are."""
        return self.fragment.type == UNTYPED and not self.fragment.experiment

    def retyped(self, like: Fragment) -> WrittenCell:
        """The same places of elements of another fragment's type."""
        own, bits = self.fragment, like.slot_bits
        registers = -(-self.table.elements * bits // max(WARP, bits))
        return replace(self, fragment=replace(own, type=like.type, slot_bits=bits, registers=registers))

    @property
    def judged(self) -> Fragment:
        """The fragment that references speak of: the multiply's operand, of a tile."""
        assert isinstance(self.fragment, WrittenFragment)
        return self.fragment.atom or self.fragment

    @property
    def how(self) -> str:
        """The method of the multiply's measurement, or WRITTEN."""
        return super().how if self.fragment.experiment else WRITTEN

    @property
    def known(self) -> str:
        """How the table is known, in few words."""
        return super().known if self.fragment.experiment else "as written"

    @property
    def evidence(self) -> str:
        """What the table rests on."""
        return f"{super().evidence}; {self.words}" if self.fragment.experiment else f"{self.words}, as written"

    @property
    def numbering(self) -> str:
        """What anchors row, column and k numbers."""
        return super().numbering if self.fragment.experiment else "the text"

    @cached_property
    def alike(self) -> list[str]:
        """Ids of the fragments that have this very table, on the arch or, of a layout, on any; B's as N x K too."""
        fragment = self.fragment
        assert isinstance(fragment, WrittenFragment)
        if fragment.memory:
            return []
        found = self._sharing(self.table, fragment)
        if self.turned and fragment.operand not in ("a", "c"):
            swapped = self.table.with_values({"row": self.table.values["col"], "col": self.table.values["row"]})
            sized = replace(fragment, rows=fragment.cols, cols=fragment.rows)
            found += [id_ for id_ in self._sharing(swapped, sized) if id_.endswith(".b") and id_ not in found]
        return found

    def _sharing(self, table: Table, fragment: Fragment) -> list[str]:
        for name in dict.fromkeys((self.arch, *reversed(self.layers.archs()))):
            if found := self.layers.sharing(table.id, name, fragment):
                return list(found)
        return []


class Meant(NamedTuple):
    """As `names.NamedCell`."""

    cell: WrittenCell
    note: str | None = None


def find_cell(name: str, arch_name: str | None, layers: Layers) -> Meant:
    """The table of a text on an arch; UsageError where it means none, or several."""
    text = spelled(_bounded(name))
    if not text.is_layout:
        atom, note = names.find_cell(text.layout, arch_name, layers)
        return Meant(_tile_of(atom, text, None), note)
    chosen, note = choose(name, arch_name, layers)
    if len(chosen) > 1:
        raise UsageError(f"{quoted(name)} has {len(chosen)} operands: add a, b or d.")
    return Meant(chosen[0].make(arch_name, layers), note)


def choose(name: str, arch_name: str | None, layers: Layers) -> tuple[list[WrittenFragment], str | None]:
    """The fragments of a text, one of a layout, all operands of a multiply that is named whole; and a note."""
    text = spelled(_bounded(name))
    if text.is_layout:
        made = _layout(text, arch_name, layers)
        return made if isinstance(made, list) else [cast("WrittenFragment", made.fragment)], None
    fragments, note = names.choose_fragments([text.layout], arch_name, layers)
    tiled = [fragment for fragment in fragments if fragment.operand in DIMENSIONS and fragment.role in WHOLE]
    made_of = [_tile_fragment(fragment, text, None, arch_name, layers) for fragment in tiled or fragments]
    return made_of, note[0] if note else None


def _bounded(name: str) -> str:
    if len(name) > MOST_TEXT:
        raise UsageError(f"a layout of {len(name)} characters; at most {MOST_TEXT} are read.")
    return name


def _tile_fragment(
    atom: Fragment, text: Spelled, mma: cute.TiledMma | None, arch_name: str | None, layers: Layers
) -> WrittenFragment:
    cell = find(atom, arch_name, layers)
    if cell is None:
        from tcprobe.store.cell import no_table

        raise no_table(atom, arch_name, layers)
    fragment = _tile_of(cell, text, mma).fragment
    assert isinstance(fragment, WrittenFragment)
    return fragment


# layouts
def _layout(text: Spelled, arch_name: str | None, layers: Layers) -> WrittenCell | list[WrittenFragment]:
    """The cell of a layout's text; of a tiled multiply whose operand is not said, the fragments of all."""
    if text.warps or text.permute:
        raise UsageError(
            f"{quoted(text.layout)}: a layout has its own threads; `warps` and `permute` go with a fragment."
        )
    if is_file(text.layout):
        return _of_file(text, arch_name, layers)
    stripped = text.layout.lstrip()
    if stripped.startswith("#") or (
        re.match(r"[\w.]*Layout\s*\(", stripped) and not re.match(r"\w*ComposedLayout", stripped)
    ):
        return _of_triton(text, arch_name, layers)
    found = cute.read(text.layout)
    if isinstance(found, cute.TiledMma):
        return _of_tiled_mma(found, text, arch_name, layers)
    if isinstance(found, cute.TiledCopy):
        return _of_tiled_copy(found, text, arch_name, layers)
    over = _over(text)
    if isinstance(found, cute.Composed):
        held, extent = places.memory(found, over)
        return _cell(text, arch_name, layers, held, extent, "CuTe's layout of memory", bits=found.in_bytes, memory=True)
    if over is None:
        raise UsageError(
            f"{quoted(text.layout)} needs the tile that it covers: give `tile`, such as 16x16, first mode fastest."
        )
    held = places.thread_values(found, over)
    return _cell(text, arch_name, layers, held, over, "CuTe's layout of threads and values", turned=True)


def _over(text: Spelled) -> tuple[int, int] | None:
    if text.over is None:
        return None
    rows, cols = sizes_written(text.over, 2)
    if not min(rows, cols) > 0:
        raise UsageError(f"`tile` {text.over} is not ROWSxCOLS such as 64x32.")
    return rows, cols


def _of_triton(text: Spelled, arch_name: str | None, layers: Layers) -> WrittenCell:
    attribute = triton.read(text.layout)
    shape = _over(text) or triton.least_shape(attribute)
    if shape[0] * shape[1] > places.MOST_SLOTS:
        raise UsageError(f"`tile` {shape[0]}x{shape[1]}: at most {places.MOST_SLOTS} elements are worked out.")
    linear = triton.bases_over(attribute, shape)
    words = f"Triton's #ttg.{attribute.kind}"
    if attribute.kind in triton.SHARED:
        held = places.of_linear(linear, ["block"], triton.OFFSET)
        if len(held.row) > 1:
            raise UsageError(f"{words}: memory of {len(held.row)} CTAs; that of one is read.")
        bits = attribute.number("elementBitWidth") if attribute.kind == "nvmma_shared" else None
        return _cell(text, arch_name, layers, held, shape, words, bits=bits, memory=True)
    held = places.checked(
        places.of_linear(linear, ["lane", "warp", "block"], "register"), shape, f"column 1 of the layout: {words}"
    )
    operand, bits = None, None
    family = triton.multiply_family(attribute)
    if attribute.kind == "dot_op":
        operand, width = "ab"[attribute.number("opIdx")], attribute.values.get("kWidth", 0)
        bits = 32 // width if width in (1, 2, 4, 8) else None
    elif attribute.kind == "nvidia_mma":
        operand, bits = "d", 32
    return _cell(text, arch_name, layers, held, shape, words, operand=operand, bits=bits, family=family)


def _of_file(text: Spelled, arch_name: str | None, layers: Layers) -> WrittenCell:
    """A table in a file: CSV as `compare` takes it, or JSON as `show --json` prints it."""
    path = Path(text.layout)
    table = _json_table(path) if text.layout.endswith(".json") else _csv_table(path)
    if "col" not in table.outputs or "product" in table.outputs:
        raise DataError(f"{path}: a table of rows and columns is needed.")
    over = _over(text) or (table.extent["row"], table.extent["col"])
    if table.extent["row"] > over[0] or table.extent["col"] > over[1]:
        raise UsageError(
            f"{path}: it reaches row {table.extent['row'] - 1}, column {table.extent['col'] - 1} of {text.over}."
        )
    return _of_table(text, arch_name, layers, table, over, f"the table in {path.name}")


def _csv_table(path: Path) -> Table:
    from tcprobe.layout.csv import read_csv

    return read_csv(path)


def _json_table(path: Path) -> Table:
    from tcprobe.system import files

    raw = files.read_text(path)
    try:
        body: Any = json.loads(raw.splitlines()[0] if "\n" in raw.strip() and raw.startswith('{"id"') else raw)
    except (ValueError, RecursionError, IndexError):
        raise DataError(f"{path}: not JSON.") from None
    if isinstance(body, dict) and isinstance(body.get("table"), list):
        lanes = body["table"]
        if not lanes or not all(isinstance(lane, list) and len(lane) == len(lanes[0]) and lane for lane in lanes):
            raise DataError(f"{path}: table[lane][i] is [row, col].")
        cells = [cell for lane in lanes for cell in lane]
        if not all(cell is None or (isinstance(cell, list) and len(cell) == 2) for cell in cells):
            raise DataError(f"{path}: table[lane][i] is [row, col].")
        body = {
            "threads": len(lanes),
            "elements": len(lanes[0]),
            "row": [[cell and cell[0] for cell in lane] for lane in lanes],
            "col": [[cell and cell[1] for cell in lane] for lane in lanes],
        }
    try:
        return Table.from_json(body)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def _type_of(text: Spelled, bits: int | None) -> tuple[str, int]:
    """The type that a text says, or one of so many bits; its bits in registers."""
    if text.of is None:
        return f"b{bits}" if bits in (8, 16, 32, 64) else UNTYPED, bits or WARP
    name = type_named(text.of)
    known = {each.name: each.bits for each in DTYPES} | {f"b{n}": n for n in (8, 16, 32, 64)}
    if name not in known:
        raise UsageError(f"unknown element type {quoted(text.of)}; known: {', '.join(known)}.")
    return name, 8 if known[name] in (6, 7) else known[name]


def _cell(  # noqa: PLR0913, PLR0917
    text: Spelled,
    arch_name: str | None,
    layers: Layers,
    held: Places,
    extent: tuple[int, int],
    words: str,
    *,
    operand: str | None = None,
    bits: int | None = None,
    memory: bool = False,
    turned: bool = False,
    family: str = "",
) -> WrittenCell:
    threads, elements = held.row.shape
    values = {
        name: tuple(None if v < 0 else v for v in column.ravel().tolist())
        if (column < 0).any()
        else tuple(column.ravel().tolist())
        for name, column in (("row", held.row), ("col", held.col))
    }
    table = Table(slots(threads, elements), values)
    named = text._replace(operand=text.operand or operand, over=text.over or f"{extent[0]}x{extent[1]}")
    return _of_table(
        named, arch_name, layers, table, extent, words, bits=bits, memory=memory, turned=turned, family=family
    )


def _of_table(  # noqa: PLR0913, PLR0917
    text: Spelled,
    arch_name: str | None,
    layers: Layers,
    table: Table,
    extent: tuple[int, int],
    words: str,
    *,
    bits: int | None = None,
    memory: bool = False,
    turned: bool = False,
    family: str = "",
) -> WrittenCell:
    kind, width = _type_of(text, bits)
    operand = {"src": "a", "dst": "d", None: "d"}.get(text.operand, text.operand) or "d"
    layout = " ".join(text.layout.split())
    id_ = layout if is_file(text.layout) else f"{layout} over {extent[0]}x{extent[1]}"

    def make(name: str | None, folders: Layers) -> WrittenCell:
        device = archs.arch(name).name if name and name != "all" else _default(folders)
        claim = Claim(table, words, None, table)
        stated = (words, claim)
        return WrittenCell(
            fragment, device, table, None, folders, WRITTEN, stated, None, words, turned=turned, family=family
        )

    fragment = WrittenFragment(
        id=id_,
        experiment="",
        instruction=words,
        family=FAMILY,
        shape=Shape(extent[0], extent[1]),
        target=_any_target(),
        threads=table.threads,
        name=operand,
        role=ROLES[operand],
        type=kind,
        rows=extent[0],
        cols=extent[1],
        slot_bits=width,
        registers=-(-table.elements * width // max(32, width)),
        held=table.elements,
        make=make,
        memory=memory,
        said=text.operand in ROLES,
    )
    return make(arch_name, layers)


def _any_target() -> Any:
    return archs.read_target("sm_70:6.0")


def _default(layers: Layers) -> str:
    """The arch whose costs and names count for a text where none is named: the newest of the best measured."""
    known = layers.archs()
    return "sm_90" if "sm_90" in known or not known else known[-1]


# tiles of multiplies
_WARPS = re.compile(r"([0-9]{1,4})x([0-9]{1,4})(?:x([0-9]{1,4}))?(?::([0-9]{1,4}),([0-9]{1,4})(?:,([0-9]{1,4}))?)?")


def read_warps(text: str) -> Warps:
    """Warps along m and n (and k): 2x4, 2x4:4,1 with strides, or a layout of CuTe; UsageError."""
    if match := _WARPS.fullmatch("".join(text.split())):
        numbers = [int(number) if number else 0 for number in match.groups()]
        shape = (numbers[0], numbers[1], numbers[2] or 1)
        if min(shape) < 1:
            raise UsageError(f"`warps` {text}: at least one along m and n is needed.")
        if bool(match[3]) != bool(match[6]) and match[4]:
            raise UsageError(f"`warps` {text[:40]}: a stride for each side is needed.")
        strides = (numbers[3], numbers[4], numbers[5]) if match[4] else cute.compact(shape)
        return Warps(L(shape, strides))
    if not text.lstrip().startswith(("(", "Layout", "make_layout")):
        raise UsageError(f"`warps` {quoted(text)} is not ROWSxCOLS such as 2x4, or 2x4:4,1 with strides.")
    layout = cute.read(text)
    if not isinstance(layout, L) or cute.rank(layout) > 3:
        raise UsageError(f"`warps` {quoted(text)}: a layout of warps along m, n and k is needed, (2,4,1):(1,2,8).")
    every = [*cute.by_modes(layout), L(1, 0), L(1, 0)][:3]
    return Warps(L(tuple(mode.shape for mode in every), tuple(mode.stride for mode in every)))


def _tile_of(atom: Cell, text: Spelled, mma: cute.TiledMma | None) -> WrittenCell:
    """A multiply's operand over a CTA's tile."""
    fragment = atom.fragment
    if fragment.role not in WHOLE or fragment.operand not in DIMENSIONS or not fragment.shape.k:
        raise UsageError(f"{fragment.id}: `warps` makes a tile of A, B, C or D of a multiply.")
    if mma is None and fragment.products > 1:
        raise UsageError(
            f"{fragment.id} holds {fragment.products} products in a warp; say how they lie by make_tiled_mma of its "
            "atom, with atoms of 8 threads."
        )
    if text.over is None:
        raise UsageError(f"{quoted(fragment.id)} with `warps` needs `tile`: MxNxK of the CTA, such as 128x128x64.")
    tile = sizes_written(text.over, 3)
    if len(tile) != 3 or min(tile) < 1:
        raise UsageError(f"`tile` {text.over[:40]}: with `warps` it is MxNxK of the CTA, such as 128x128x64.")
    warps = Warps(mma.warps) if mma else read_warps(text.warps or "1x1")
    permutation = mma.permutation if mma else _permutation(text.permute)
    own, lanes, quads = _atom_places(atom, mma)
    dims, extents = DIMENSIONS[fragment.operand], {}
    sizes, whole = [fragment.shape.m, fragment.shape.n, fragment.shape.k], [tile[0], tile[1], tile[2]]
    for dim, extent in zip(dims, (fragment.rows, fragment.cols), strict=True):
        if sizes[dim] != extent:  # A of a sparse multiply: the stored columns
            whole[dim] = whole[dim] * extent // sizes[dim]
            sizes[dim] = extent
        extents[dim] = extent
    tiling = Tiling((whole[0], whole[1], whole[2]), warps, permutation, (sizes[0], sizes[1], sizes[2]))
    held = places.tiled(own, fragment.operand, tiling, lanes, quads)
    threads, elements = held.row.shape
    table = Table(
        slots(threads, elements), {"row": tuple(held.row.ravel().tolist()), "col": tuple(held.col.ravel().tolist())}
    )
    permuted = "" if permutation == (None, None, None) else f" permute {_permutation_text(permutation)}"
    head = f"{mma} {fragment.operand}" if mma and quads else f"{fragment.id} warps {warps}"
    id_ = f"{head} over {text.over}{'' if mma and quads else permuted}"
    unit = {32: "warps", 128: "warpgroups"}.get(len(lanes), "atoms")
    words = f"a tile of {'x'.join(map(str, tile))} by {warps} {unit}"

    def make(name: str | None, layers: Layers) -> WrittenCell:
        cell = find(fragment, name, layers) or atom
        return made if (cell.arch, cell.table) == (atom.arch, atom.table) else _tile_of(cell, text, mma)

    made_fragment = WrittenFragment(
        id=id_,
        experiment=fragment.experiment,
        instruction=fragment.instruction,
        family=fragment.family,
        shape=fragment.shape,
        target=fragment.target,
        threads=threads,
        name=fragment.name,
        role=fragment.role,
        type=fragment.type,
        rows=whole[dims[0]],
        cols=whole[dims[1]],
        slot_bits=fragment.slot_bits,
        registers=-(-elements * fragment.slot_bits // fragment.register_bits),
        layout=fragment.layout,
        held=elements,
        make=make,
        atom=fragment,
        lanes=len(lanes) if len(lanes) >= WARP else WARP,
    )
    made = WrittenCell(
        made_fragment,
        atom.arch,
        table,
        atom.measured,
        atom.layers,
        atom.source,
        atom.stated,
        None,
        words,
        tiling,
    )
    return made


def _permutation(text: str | None) -> places.Permutation:
    if text is None:
        return (None, None, None)
    sides = cute.read_tiler(text)
    if len(sides) > 3:
        raise UsageError(f"`permute` {quoted(text)}: three sides, of m, n and k, each a number, _ or a layout.")
    m, n, k = (*sides, None, None)[:3]
    return m, n, k


def _permutation_text(permutation: places.Permutation) -> str:
    return ",".join(
        "_" if side is None else str(side) if isinstance(side, int) else cute.written(side) for side in permutation
    )


def _atom_places(atom: Cell, mma: cute.TiledMma | None) -> tuple[Places, Any, L | None]:
    """What each thread of an atom holds, the numbers of these threads, and these as a layout where they are no warp."""
    table = atom.table
    shape = (table.threads, table.elements)
    if any(None in column for column in table.values.values()):
        raise UsageError(f"{atom.fragment.id} has slots that hold nothing, so no tile can be made of it.")
    row, col = (np.array(table.values[name], np.int64).reshape(shape) for name in ("row", "col"))
    if mma is None or "product" not in table.outputs:
        return Places(row, col), np.arange(table.threads), None
    quads = next((each.threads for each in atoms() if mma.atom in each.names), None)
    if quads is None:
        raise UsageError(f"{mma.atom}: an atom of CuTe is needed, which says its threads.")
    lanes = cute.table(quads)
    return Places(row[lanes], col[lanes]), lanes, quads


def _of_tiled_mma(
    mma: cute.TiledMma, text: Spelled, arch_name: str | None, layers: Layers
) -> WrittenCell | list[WrittenFragment]:
    """A tiled multiply: one operand of it, or all."""
    named = f"{mma.atom} {text.operand}" if text.operand else mma.atom
    if text.operand:
        return _tile_of(names.find_cell(named, arch_name, layers).cell, text, mma)
    fragments, _ = names.choose_fragments([named], arch_name, layers)
    return [
        _tile_fragment(fragment, text, mma, arch_name, layers)
        for fragment in fragments
        if fragment.operand in DIMENSIONS
    ]


# tiled copies
LDMATRIX = re.compile(r"(SM[0-9]+_[US]\w+_(?:LDSM|STSM)_[NT])")


def _of_tiled_copy(copy: cute.TiledCopy, text: Spelled, arch_name: str | None, layers: Layers) -> WrittenCell:
    kind = copy.type or text.of
    if copy.of is not None:
        operand = copy.operand
        atom_cell = names.find_cell(f"{copy.of.atom} {operand}", arch_name, layers).cell
        kind = kind or atom_cell.fragment.type
        tv, tiler = _tv_of_mma(copy.of, operand, atom_cell)
    elif copy.tv is not None:
        assert copy.tiler is not None
        if cute.rank(copy.tv) != 2:
            raise UsageError(f"column 1 of the layout: {cute.written(copy.tv)} is not of threads and values.")
        threads, values = (cute.table(mode) for mode in cute.by_modes(copy.tv))
        tv, tiler = threads[:, None] + values[None, :], copy.tiler
    else:
        assert copy.threads is not None
        assert copy.values is not None
        tv, tiler = places.copy_tv(copy.threads, copy.values)
    said = text._replace(of=kind)
    _, bits = _type_of(said, None)
    side, width = _copy_side(copy, bits, text.operand or "dst")
    over = _over(text) or tiler
    if over[0] * over[1] > places.MOST_SLOTS:
        raise UsageError(f"`tile` {over[0]}x{over[1]}: at most {places.MOST_SLOTS} elements are worked out.")
    held = places.copied(tv, tiler, over, side)
    places.checked(held, over, f"column {copy.token.column} of the layout: the copy")
    words = f"a copy of {width} bits at a time, {copy.atom}, by CuTe's make_tiled_copy"
    made = _cell(said, arch_name, layers, held, over, words, turned=copy.operand == "b")
    return made.of_copy(width)


def _tv_of_mma(mma: cute.TiledMma, operand: str, atom: Cell) -> tuple[Any, tuple[int, int]]:
    """Threads and values of an operand of a tiled multiply over its own tile, B as N x K; and that tile."""
    sides = [atom.fragment.shape.m, atom.fragment.shape.n, atom.fragment.shape.k]
    warps = Warps(mma.warps)
    if operand == "d" and warps.sides[2] > 1:
        raise UsageError(
            f"column {mma.token.column} of the layout: {warps.sides[2]} atoms along k: "
            "CuTe's make_tiled_copy_C then leads threads beyond the tile."
        )
    tile = []
    for dim in range(3):
        tiler = mma.permutation[dim]
        core = sides[dim] * warps.sides[dim]
        tile.append(core if tiler is None else tiler if isinstance(tiler, int) else size(tiler.shape))
    text = Spelled("", operand, "x".join(map(str, tile)), None, None, None)
    cell = _tile_of(atom, text, mma)
    rows, cols = cell.fragment.rows, cell.fragment.cols
    row, col = (np.array(cell.table.values[name], np.int64).reshape(cell.table.threads, -1) for name in ("row", "col"))
    if operand == "b":
        return col + row * cols, (cols, rows)
    return row + col * rows, (rows, cols)


def _copy_side(copy: cute.TiledCopy, bits: int, which: str) -> tuple[CopySide, int]:
    """The source's or the destination's side of an atom in elements of so many bits, and bits of a thread's copy."""
    if LDMATRIX.fullmatch(copy.atom):
        row = next((each for each in copy_atoms().values() if each.name == copy.atom), None)
        if row is None or row.order:
            raise UsageError(f"{copy.atom}: no atom of that name is known, or it permutes bytes.")
        loads = "_LDSM_" in copy.atom
        reference = row.registers
        asked = row.registers if (which == "dst") == loads else row.memory
        return _side_of(reference, asked, bits), 128 if asked is row.memory else _bits_of(row.registers)
    match = re.search(r"u?int([0-9]{1,3})_t|uint_bit_t<([0-9]{1,3})>", copy.atom)
    width = int(match[1] or match[2]) if match else bits
    if width % bits or width not in (8, 16, 32, 64, 128, 256):
        raise UsageError(f"{copy.atom} copies {width} bits, which are not whole elements of {bits} bits.")
    values = width // bits
    return CopySide(np.arange(values)[None, :], 1, values), width


def _bits_of(layout: L) -> int:
    return size(modes(layout)[1].shape)


def _side_of(reference: L, asked: L, bits: int) -> CopySide:
    """By thread and value of the asked side the thread and value of the reference, whose layouts count bits."""
    threads, values = (size(mode.shape) for mode in modes(reference))
    at: dict[int, int] = {}
    of_thread, of_value = modes(reference)
    for value in range(0, values, bits):
        for thread in range(threads):
            at.setdefault(apply(of_thread, thread) + apply(of_value, value), thread + threads * (value // bits))
    a_thread, a_value = modes(asked)
    numbers = [
        [at[apply(a_thread, thread) + apply(a_value, value)] for value in range(0, size(a_value.shape), bits)]
        for thread in range(size(a_thread.shape))
    ]
    return CopySide(np.array(numbers, np.int64), threads, values // bits)
