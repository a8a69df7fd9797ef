"""How the warps of a block share out the copies of its tiles of A and B, from global to shared memory.

A tile consists of parts, one for each row (or column) of warps, each with the path of its own; the copies of all parts
are counted through, and warp w has copies w, w + warps, ... Where each of a thread's copies is as far from its first
one as with all other threads, addresses are computed once and moved by constants.
"""

from __future__ import annotations

from string import Template
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tcprobe.ask.path.formula import formula
from tcprobe.ask.path.steps import LaneCopy
from tcprobe.errors import UsageError
from tcprobe.isa.arch import WARP
from tcprobe.layout.arrays import Ints
from tcprobe.layout.banks import IDLE

if TYPE_CHECKING:
    from tcprobe.ask.path.plan import PathPlan

FILL = Template("""\
// The block's tile of $what, global -> shared, in $count copies of a warp: $parts times those of the path of
// $fragment, tile $tile (tcprobe path). Where a thread's first piece is, from where the tile begins:
__device__ inline const char* first_$operand(const char* global, long long ld) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  $first
  asm("" : "+l"(global));  // one register pair: no part of the address is computed again
  return global;
}
// and where it goes, from where the tile begins in shared memory
__device__ inline unsigned place_$operand() {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  $place
  asm("" : "+r"(place));
  return place;
}
// lines, bytes: how many the matrix has from the tile's start on
template <bool whole>
__device__ inline void fill_$operand(unsigned shared, unsigned place, const char* first, long long ld, int lines,
                                          int bytes) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll(whole ? $rounds : 1)
  for (int round = 0; round < $rounds; ++round) {
    $issue
    const int line = $line, byte = $byte;
    copy<whole>(shared + $in_shared, first + $on, line < lines ? bytes - byte : 0);
  }
}
""")


class Copies(NamedTuple):
    """Of a tile: arrays of shape (copies, 32), IDLE for lanes without one."""

    line: Ints
    byte: Ints
    shared: Ints
    warps: int

    @property
    def rounds(self) -> int:
        """How many each warp has at most."""
        return -(-len(self.line) // self.warps)

    @property
    def moves(self) -> list[Ints] | None:
        """For each round how far its copy is from the first one: lines, bytes in a line, bytes of shared memory.

        None where threads differ in that.
        """
        if (self.line == IDLE).any():
            return None
        moves = []
        for values in self[:3]:
            rounds = [values[start : start + self.warps] for start in range(0, len(values), self.warps)]
            apart = [here - values[: len(here)] for here in rounds]
            if any((distance != distance.flat[0]).any() for distance in apart):
                return None
            moves.append(np.array([distance.flat[0] for distance in apart]))
        return moves


def copies(plan: PathPlan, parts: int, warps: int, along_k: bool) -> Copies:
    """All of `parts` next to each other, along lines where these lie `along_k`, else in them."""
    step, tile_request = plan.transfer, plan.request
    assert isinstance(step, LaneCopy)
    size, tile = tile_request.shared.bytes(tile_request.tile), tile_request.tile
    on = (tile.lines, 0, size) if along_k else (0, tile.line_bytes, size)
    line, byte, shared = (
        np.concatenate([np.where(values == IDLE, IDLE, values + part * move) for part in range(parts)])
        for values, move in zip((step.line, step.byte, step.shared), on, strict=True)
    )
    return Copies(line, byte, shared, warps)


def fill(operand: str, plan: PathPlan, all_: Copies) -> str:
    """`fill_a` or `fill_b`; UsageError where addresses have no closed form."""
    count, tile, there = len(all_.line), plan.request.tile, int((all_.line != IDLE).sum())
    number = f"round * {all_.warps} + warp"
    (own_shared, shared_on), addresses = _addresses(operand, all_)[2], _addresses(operand, all_)
    line, byte, shared = (f"{own}{on}" for own, on in addresses)
    place = "unsigned place = 0;\n  (void)lane, (void)warp;"
    if all_.moves:
        place = f"const unsigned issue = warp;\n  unsigned place = {own_shared};"
    own, on = _apart(all_, *_addresses(operand, all_)[:2])
    issue = [f"const unsigned issue = {'warp' if all_.moves else number};"]
    if there < WARP * count:
        issue.append(f"if (({number}) * {WARP} + lane >= {there}) continue;")
    elif count % all_.warps:
        issue.append(f"if ({number} >= {count}) continue;")
    return FILL.substitute(
        what=operand.upper(),
        count=count,
        fragment=plan.request.cell.fragment.id,
        tile=f"{tile.rows}x{tile.cols}",
        parts=count // len(plan.transfer.issues()),
        operand=operand,
        rounds=all_.rounds,
        line=line,
        byte=byte,
        in_shared=f"place{shared_on}" if all_.moves else shared,
        place=place,
        first=own,
        on=on,
        issue="\n    ".join(issue),
    )


def _apart(all_: Copies, of_line: tuple[str, str], of_byte: tuple[str, str]) -> tuple[str, str]:
    """What moves `global` to a thread's first piece, and where the one of a round is from there."""
    if not all_.moves:
        return "(void)lane, (void)warp, (void)ld;", "line * ld + byte"
    moved = [on.removeprefix(" + ") for _, on in (of_line, of_byte)]
    on = " + ".join(text for text in (moved[0] and f"{moved[0]} * ld", moved[1]) if text)
    return f"const unsigned issue = warp;\n  global += {of_line[0]} * ld + {of_byte[0]};", on or "0"


def _addresses(operand: str, all_: Copies) -> list[tuple[str, str]]:
    """Line, byte and place in shared memory of a thread's first copy, in C, each with what a round adds to it."""
    moves = all_.moves
    formulas = [formula(values[: all_.warps] if moves else values) for values in all_[:3]]
    if moves:
        formulas += [formula(values[:, None]) for values in moves]
    if None in formulas:
        raise UsageError(f"{operand}: addresses in the tile have no closed form, so no code can be made.")
    own, on = formulas[:3], formulas[3:] or ["0"] * 3
    return [
        (f"({first})", "" if move == "0" else f" + ({str(move).replace('issue', 'round')})")
        for first, move in zip(own, on, strict=True)
    ]
