"""tensor-layouts: MMA atoms as Layout(shape, stride), (thread, value) to m + M k, n + N k and m + M n."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tcprobe.audit.statement import StatedPlace, Statement, statement, uncompared_statement

PACKAGE = "tensor-layouts"
K64 = "no report is known; PTX has e4m3 with m16n8k64 as a sparse form only, and m16n8k64 for e2m1"
REPORTED: Mapping[str, str] = {
    "SM80_16x8x32_S32S4S4S32_TN": "the same stride was corrected in CUTLASS, NVIDIA/cutlass#3140; to tensor-layouts no "
    "report is known",
    "SM120_16x8x64": K64,
    "SM120_16x8x128": "no report is known; PTX has m16n8k128 for 4-bit types only",
}
LISTS = ("SM70", "SM75", "SM80", "SM89", "SM90", "SM90_GMMA", "SM90_GMMA_EXT", "SM90_GMMA_SPARSE", "SM120")
APART = {"SM61": "no tensor core", "SM100_UMMA": "operands in shared and tensor memory, no registers"}
_GROUP = re.compile(r"SM90_64x([0-9]+)x([0-9]+)_([FS][0-9]+)(F16|BF16|TF32|S8|E4M3|E5M2)\4_SS(_SPARSE)?")
SPARSE_A = "of a sparse multiply it states columns of the whole A; which of them are stored is data"


def statements() -> Iterator[Statement]:
    """Every operand of every atom."""
    from tensor_layouts import atoms_nv

    for name in LISTS:
        for atom in getattr(atoms_nv, f"MMA_ATOMS_{name}", ()):
            yield from _warpgroup_statements(atom) if "GMMA" in name else _warp_statements(atom)
    for name, reason in APART.items():
        for atom in getattr(atoms_nv, f"MMA_ATOMS_{name}", ()):
            yield uncompared_statement(atom.name, atom.ptx, reason)


def _warp_statements(their_atom: Any) -> Iterator[Statement]:
    """A, B and D of a warp, or of a quad pair of it."""
    m, n, k = their_atom.shape_mnk
    form, sparse = _form(their_atom.ptx), "(sparse)" in their_atom.ptx
    for operand, (rows, cols) in {"a": (m, k), "b": (k, n), "d": (m, n)}.items():
        name = f"{their_atom.name}.{'c' if operand == 'd' else operand}_layout"
        if "(complex)" in their_atom.ptx or (sparse and operand == "a"):
            yield uncompared_statement(name, form, SPARSE_A if sparse else "PTX has no complex multiply")
            continue
        layout = getattr(their_atom, name.rpartition(".")[2])
        place = _place(layout, rows, cols, operand)
        if their_atom.thr_id is not None:
            place = _quad_pair_place(place, their_atom.thr_id)
        elements = _values(layout)
        yield statement(
            name,
            f"{form}.{operand}",
            (32, elements),
            place,
            atom=their_atom.name,
            code=_code(name, (rows, cols), operand, their_atom.thr_id is not None),
        )


def _warpgroup_statements(their_atom: Any) -> Iterator[Statement]:
    """D of a warpgroup; A and B are in shared memory."""
    match = _GROUP.fullmatch(their_atom.name)
    m, n, k = their_atom.shape_mnk
    if match is None:
        yield uncompared_statement(their_atom.name, their_atom.ptx, "its types are not in its name")
        return
    types = ".".join((match[3], match[4], match[4])).lower()
    kind = "wgmma.mma_async.sp" if match[5] else "wgmma.mma_async"
    name, fragment = f"{their_atom.name}.c_layout", f"{kind}.m{m}n{n}k{k}.{types}.d"
    size, place = (128, _values(their_atom.c_layout)), _place(their_atom.c_layout, m, n, "d")
    yield statement(name, fragment, size, place, code=_code(name, (m, n), "d"))


def _form(ptx: str) -> str:
    """The id that the form has here, where it is one."""
    form = ptx.replace(".sync.aligned", "").split(" ")[0]
    return form.replace("mma.", "mma.sp.", 1) if "(sparse)" in ptx else form


def _values(their_layout: Any) -> int:
    from tensor_layouts import mode, size

    return int(size(mode(their_layout, 1)))


def _place(their_layout: Any, rows: int, cols: int, operand: str) -> Callable[[int, int], StatedPlace]:
    def place(thread: int, i: int) -> StatedPlace:
        element = int(their_layout(thread, i))
        return divmod(element, cols) if operand == "b" else (element % rows, element // rows)

    return place


def _quad_pair_place(placed: Callable[[int, int], StatedPlace], lane_of: Any) -> Callable[[int, int], StatedPlace]:
    """The map of the lanes that hold the first product; it does not state the others."""
    logical = {int(lane_of(j)): j for j in range(8)}
    return lambda thread, i: placed(logical[thread], i) if thread in logical else None


def _code(name: str, tile_size: tuple[int, int], operand: str, partly: bool = False) -> str:
    atom, _, layout = name.partition(".")
    rows, cols = tile_size
    place_code = f"divmod(int(layout(thread, i)), {cols if operand == 'b' else rows})" + (
        "" if operand == "b" else "[::-1]"
    )
    lines = [f"from tensor_layouts.atoms_nv import {atom} as atom", f"layout = atom.{layout}", "def stated(thread, i):"]
    if partly:
        lines += ["    lanes = [int(atom.thr_id(j)) for j in range(8)]", "    if thread not in lanes:"]
        lines += ["        return None", "    thread = lanes.index(thread)"]
    return "\n".join([*lines, f"    return {place_code}"])
