"""Scales of weights that are multiplied as they are: the sum over a group of k takes them in, in f32."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tcprobe.ask.bank_access import slots_of
from tcprobe.code.cuda import holder, of_holder, register_type
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.fragment import Fragment
from tcprobe.layout.arrays import Ints
from tcprobe.store.cell import Cell, cell
from tcprobe.store.choose import Layers, default

HEAD = "__device__ __forceinline__ static"


def sums_table(factor: Fragment, arch: str, layers: Layers | None) -> Cell:
    """The table of D of the multiply that takes the weights; UsageError where several do, or D is packed."""
    multiplies = inventory.user_ids(factor.id)
    if len(multiplies) > 1:
        raise UsageError(f"`group`: several multiplies take {factor.id}, whose sums may differ; use a fragment of mma.")
    d = inventory.instructions()[multiplies[0]].fragment("d")
    if register_type(d) not in ("int", "float"):
        raise UsageError(f"`group`: the sums, {d.id}, are {d.type}; scales need sums of s32 or f32.")
    return cell(inventory.fragment(d.id), arch, layers or default())


def lines(factor: Fragment, d: Cell) -> tuple[Ints, Ints]:
    """The lines whose scales a thread needs, (lines, threads), and which of them each slot of D has."""
    slots = slots_of(d)
    line = slots.row if factor.operand == "a" else slots.col
    numbers: dict[bytes, int] = {}
    which = np.array([numbers.setdefault(line[:, slot].tobytes(), len(numbers)) for slot in range(line.shape[1])])
    first = [int(np.flatnonzero(which == number)[0]) for number in range(len(numbers))]
    return line[:, first].T, which


def code(sums: Cell, scale_row: str, axis: str, line_and_which: tuple[str, str], count: int) -> Iterator[str]:
    """load_scales and add; `scale_row`: which row of scales, `line_and_which` their formulas, `count` of lines."""
    threads, kind, (line_formula, which) = sums.fragment.threads, register_type(sums.fragment), line_and_which
    yield f"static constexpr int SCALES = {count}, SUMS = {sums.fragment.registers};  // of a {holder(threads)}"
    yield f"/// `scales`: f32, [k / GROUP][{axis}], `all` a row; `k_block`, `line_block`: k / K, {axis} / LINES"
    yield f"{HEAD} void load_scales("
    yield "    const void* scales, long long all, long long k_block, long long line_block,"
    yield f"    unsigned {holder(threads)}, float (&held)[GROUPS][SCALES]) {{"
    yield "#pragma unroll"
    yield "  for (int g = 0; g < GROUPS; ++g) {"
    yield f"    const float* row = static_cast<const float*>(scales) + ({scale_row}) * all + line_block * LINES;"
    yield "#pragma unroll"
    yield f"    for (int issue = 0; issue < SCALES; ++issue) held[g][issue] = row[{of_holder(line_formula, threads)}];"
    yield from ("  }", "}")
    yield "/// the sums of a group, D of its multiplies, times its scales, to all sums in f32"
    yield f"{HEAD} void add(const float (&held)[SCALES], const {kind} (&d)[SUMS], float (&sums)[SUMS]) {{"
    yield "#pragma unroll"
    yield f"  for (int slot = 0; slot < SUMS; ++slot) sums[slot] += held[{which}] * static_cast<float>(d[slot]);"
    yield "}"
