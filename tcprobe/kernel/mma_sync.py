"""The kernel of sm_70 to sm_89 and of Blackwell by mma.sync: shared memory filled by lanes, ldmatrix, mma.

A block's tile of A is cut along m into the parts of its rows of warps, its tile of B likewise along n; each part lies
in shared memory as the path of that part says, so that a warp's loads are the path's own. The copies of all parts, from
global to shared memory, are counted through, and warp w has copies w, w + warps, ... Where each of a thread's copies is
as far from its first one as with all other threads, addresses are computed once and moved by constants.

>>> from tcprobe.kernel.mma_sync import Gemm
>>> gemm = Gemm("sm_80", "f16", (128, 128, 64))
>>> gemm.instruction.name, gemm.warp_tile, gemm.out
('mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32', (64, 64), 'f16')
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tcprobe import __version__
from tcprobe.ask.path.code import name as struct_name
from tcprobe.ask.path.code import source as path_code
from tcprobe.ask.path.formula import formula
from tcprobe.ask.path.plan import LOADS, PathOptions, PathPlan, advance, plan_path, prove, request
from tcprobe.ask.path.steps import LaneCopy
from tcprobe.ask.scales import LoadedScales, scales_in_registers
from tcprobe.code import templates
from tcprobe.code.cuda import instruction_functions, multiply_function, register_and_letter
from tcprobe.errors import UsageError, answer_or_none
from tcprobe.isa.arch import WARP
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.fragment import Shape
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.names import resolve
from tcprobe.isa.operand import FACTORS, MULTIPLIED
from tcprobe.kernel import staged
from tcprobe.kernel.staged import OTHERS, SCALED, Scaled, StagedGemm, check_memory, shape
from tcprobe.layout.arrays import Ints
from tcprobe.layout.banks import IDLE
from tcprobe.references.tensor_memory import BLOCKS
from tcprobe.store.cell import Cell
from tcprobe.text import quoted
from tcprobe.values import Json


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


def fill(operand: str, plan: PathPlan, all_: Copies) -> dict[str, object]:
    """What the text of `fill_a` or `fill_b` says; UsageError where addresses have no closed form."""
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
    return {
        "what": operand.upper(),
        "count": count,
        "fragment": plan.request.cell.fragment.id,
        "tile": f"{tile.rows}x{tile.cols}",
        "parts": count // len(plan.transfer.issues()),
        "operand": operand,
        "rounds": all_.rounds,
        "line": line,
        "byte": byte,
        "in_shared": f"place{shared_on}" if all_.moves else shared,
        "place": place,
        "first": own,
        "on": on,
        "issue": "\n    ".join(issue),
    }


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


_SCALED = "row.col.kind::{}.block_scale.scale_vec::{}"
# by type the multiplies of a warp, the first that an arch has, and the first arch that has it
MULTIPLIES: dict[str, tuple[tuple[int, str], ...]] = {
    "f16": (
        (80, "mma.m16n8k16.row.col.f32.f16.f16.f32"),
        (75, "mma.m16n8k8.row.col.f32.f16.f16.f32"),
        (70, "mma.m8n8k4.row.col.f32.f16.f16.f32"),
    ),
    "bf16": ((80, "mma.m16n8k16.row.col.f32.bf16.bf16.f32"),),
    "tf32": ((80, "mma.m16n8k8.row.col.f32.tf32.tf32.f32"),),
    "e4m3": ((89, "mma.m16n8k32.row.col.f32.e4m3.e4m3.f32"),),
    "e5m2": ((89, "mma.m16n8k32.row.col.f32.e5m2.e5m2.f32"),),
    "s8": ((80, "mma.m16n8k32.row.col.s32.s8.s8.s32"), (75, "mma.m8n8k16.row.col.s32.s8.s8.s32")),
    "mxf8": ((120, f"mma.m16n8k32.{_SCALED.format('mxf8f6f4', '1X')}.f32.e4m3.e4m3.f32.ue8m0"),),
    "mxf4": ((120, f"mma.m16n8k64.{_SCALED.format('mxf4', '2X')}.f32.e2m1.e2m1.f32.ue8m0"),),
    "nvf4": ((120, f"mma.m16n8k64.{_SCALED.format('mxf4nvf4', '4X')}.f32.e2m1.e2m1.f32.ue4m3"),),
}


def ways_of(kind: str) -> tuple[tuple[int, str], ...]:
    """The line of MULTIPLIES; UsageError where kernels do not exist for a type."""
    if kind not in MULTIPLIES:
        raise UsageError(f"`type` {quoted(kind)}: kernels exist for {', '.join(MULTIPLIES)}.")
    return MULTIPLIES[kind]


MOST_REGISTERS = 255  # of a thread
MOST_WARPS = 16
PIECE = 16  # bytes of a row that a thread stores at once
SIZES = (8, 16, 32, 64, 128, 256)


@dataclass(frozen=True)
class Gemm(StagedGemm):
    """`warps` share the tile of a block along m and n."""

    warps: tuple[int, int] = (2, 2)

    @cached_property
    def instruction(self) -> Instruction:
        """The multiply; UsageError where no kernel has the type, or the arch has no multiply of it."""
        ways = ways_of(self.type)
        for first, name in ways:
            if self.arch.number >= first:
                return resolve(name).instruction
        able = ", ".join(kind for kind, ways in MULTIPLIES.items() if ways[-1][0] <= self.arch.number)
        first = ways[-1][0]
        raise UsageError(
            f"{self.arch.name} has no multiply of {self.type}: it has those of {able}; sm_{first} is the "
            f"first that multiplies {self.type}."
        )

    @property
    def shape(self) -> Shape:
        """m x n x k that a warp multiplies at once."""
        return shape(self.instruction)

    @property
    def threads(self) -> int:
        """Of a block."""
        return WARP * self.warps[0] * self.warps[1]

    @property
    def warp_tile(self) -> tuple[int, int]:
        """Rows and columns of D that a warp makes."""
        (m, n, _), (down, across) = self.tile, self.warps
        return m // down, n // across

    @property
    def numbering(self) -> tuple[str, str]:
        """Which warp has which part of the tile, as `tcprobe where` takes --warps and --permute: n counts first."""
        (down, across), (m, n) = self.warps, self.warp_tile
        one, rows, cols = self.shape, m // self.shape.m, n // self.shape.n
        parts = [
            f"({size},{along},{repeats}):(1,{apart},{size})"
            for size, along, repeats, apart in ((one.m, down, rows, m), (one.n, across, cols, n))
        ]
        return f"{down}x{across}:{across},1", f"{parts[0]},{parts[1]},_"

    @cached_property
    def paths(self) -> dict[str, PathPlan]:
        """Of A and B: the proven path of a warp's part of the tile."""
        (m, n), k = self.warp_tile, self.tile[2]
        return {"a": self._path("a", (m, k), self.a), "b": self._path("b", (k, n), self.b)}

    @cached_property
    def scales(self) -> dict[str, LoadedScales]:
        """Of A and B, where the type has them: a word of a lane, for 4 blocks of k."""
        if self.type not in SCALED:
            return {}
        return {name: scales_in_registers(self.cell(f"scale_{name}")) for name in FACTORS}

    @property
    def asynchronous(self) -> bool:
        """Whether lanes copy by cp.async."""
        return self.arch.number >= 80

    def _path(self, operand: str, size: tuple[int, int], contiguous: str) -> PathPlan:
        cell = self.cell(operand)
        line = size[contiguous == "row"] * cell.fragment.slot_bits // 8
        fill = "cp.async" if self.asynchronous else "plain"
        options = PathOptions(_by(size), contiguous, swizzle(line), fill=f"{fill}.16")
        plan = _by_steps(cell, options) or plan_path(request(cell, options))
        if plan.alignment > plan.request.shared.bytes(plan.request.tile):
            raise UsageError(
                f"{operand}: a warp's part of {size[0]} x {size[1]} is smaller than its swizzle's pattern."
            )
        return plan

    def copies(self, operand: str) -> Copies:
        """Of a block's tile of A or B into shared memory, and which warp has which."""
        along_k = self.a == "row" if operand == "a" else self.b == "col"
        return copies(self.paths[operand], self.warps[operand == "b"], self.warps[0] * self.warps[1], along_k)

    @property
    def stage_bytes(self) -> int:
        """Of A and B of one step of the loop."""
        return self.parts_bytes("a") + self.parts_bytes("b")

    def parts_bytes(self, operand: str) -> int:
        """Of all warps' parts of A or B in a stage."""
        plan = self.paths[operand]
        return plan.request.shared.bytes(plan.request.tile) * self.warps[operand == "b"]

    @property
    def alignment(self) -> int:
        """Of the first byte."""
        return max(plan.alignment for plan in self.paths.values())

    @property
    def line(self) -> int:
        """Bytes from row to row of D in shared memory, 0 where it does not fit where the stages were."""
        (m, n, _), size = self.tile, dtype(self.out).bits // 8
        # the lanes that a wavefront serves store 128 bytes, 16 or 32 of each row: so much more spares bank conflicts
        spaced = (n * size + more for more in (PIECE * size // 2, PIECE))
        return next((apart for apart in spaced if m * apart <= self.stage_bytes * self.stages), 0)

    @property
    def wavefronts(self) -> dict[str, Json]:
        """Of A and B: what loads a warp's part of the tile into registers, and its cycles of shared memory."""
        steps = {name: plan.registers for name, plan in self.paths.items()}
        return {
            name: {"instruction": step.instruction, "wavefronts": step.wavefronts, "ideal": step.ideal}
            for name, step in steps.items()
        }

    @property
    def evidence(self) -> list[str]:
        links = [link for plan in self.paths.values() for link in plan.evidence]
        links += [f"{loaded.id} on {loaded.cell.arch}: {loaded.evidence}" for loaded in self.scales.values()]
        return list(dict.fromkeys([*links, *super().evidence]))

    @property
    def fragments(self) -> tuple[int, int]:
        """How many along m and n a warp has."""
        (m, n), (rows, cols, _) = self.warp_tile, self.shape
        return m // rows, n // cols

    @property
    def registers(self) -> dict[str, int]:
        """Of a thread: accumulators, and fragments of two k steps."""
        (down, across), row = self.fragments, self.instruction
        a, b, d = (row.fragment(name).registers for name in MULTIPLIED)
        scales = {"scales": 2 * (down + across)} if self.scales else {}
        return {"accumulators": down * across * d, "fragments": 2 * (down * a + across * b), **scales}

    @property
    def thread_registers(self) -> int:
        """All that a thread takes."""
        return sum(self.registers.values()) + OTHERS


def _by_steps(cell: Cell, options: PathOptions) -> PathPlan | None:
    """The path by the most matrices of which none serves several steps of k, None where there is no path at all."""
    for access in LOADS:
        with suppress(UsageError):
            plan = prove(request(cell, options._replace(access=access)))
            ahead = advance(plan)
            if ahead and ahead.issues:
                return plan
    return None


def swizzle(line: int) -> str:
    """The swizzle under which 8 lines next to each other, of so many bytes, take every bank once.

    >>> swizzle(128), swizzle(64), swizzle(256), swizzle(16)
    ('sw:3,4,3', 'sw:2,4,3', 'sw:3,4,4', 'plain')
    """
    chunks = (line // 16).bit_length() - 1
    return f"sw:{min(3, chunks)},4,{max(3, chunks)}" if chunks > 0 else "plain"


def check(gemm: Gemm) -> Gemm:
    """The GEMM itself; UsageError with the nearest possible one where there can be no such kernel."""
    _check_tile(gemm)
    check_memory(gemm)
    _check_registers(gemm)
    return gemm


def _check_tile(gemm: Gemm) -> None:
    least_, (m, n), k = gemm.shape, gemm.warp_tile, gemm.tile[2]
    if not 1 <= gemm.warps[0] * gemm.warps[1] <= MOST_WARPS:
        raise UsageError(f"`warps` {_by(gemm.warps)}: a block has 1 to {MOST_WARPS} warps here.")
    for name, part, least, whole, count in (
        ("m", m, least_.m, gemm.tile[0], gemm.warps[0]),
        ("n", n, 2 * least_.n, gemm.tile[1], gemm.warps[1]),
        ("k", k, 2 * least_.k, k, 1),
    ):
        if part * count != whole or part % least or part not in SIZES:
            near = [size * count for size in SIZES if size % least == 0]
            listed = ", ".join(map(str, sorted(near, key=lambda size: abs(size - whole))[:2]))
            raise UsageError(
                f"`tile` {_by(gemm.tile)}: {name} {whole} is not {count} times a power of two that is a "
                f"multiple of {least}, as {least_} and `warps` {_by(gemm.warps)} need; nearest: {name} "
                f"{listed}."
            )
    _ = gemm.out
    for name, loaded in gemm.scales.items():
        each = BLOCKS // loaded.vector * least_.k
        if k % each:
            raise UsageError(f"`tile` {_by(gemm.tile)}: k {k} is not a multiple of {each}, {BLOCKS} scales of {name}.")


def _check_registers(gemm: Gemm) -> None:
    need = gemm.thread_registers
    if need > MOST_REGISTERS:
        counted = ", ".join(f"{count} of {name}" for name, count in gemm.registers.items())
        need_text = f"{need} registers per thread ({counted}, {OTHERS} others); there are {MOST_REGISTERS}"
        near = answer_or_none(lambda: f"try `warps` {_by(_roomier(gemm).warps)}") or "use a smaller `tile`"
        raise UsageError(f"`tile` {_by(gemm.tile)} `warps` {_by(gemm.warps)} takes {need_text}: {near}.")


def _roomier(gemm: Gemm) -> Gemm:
    """The same GEMM with more warps, so that each thread has enough registers; UsageError where a block has too few."""
    (m, n), (down, across) = gemm.warp_tile, gemm.warps
    wider = replace(gemm, warps=(2 * down, across) if m >= n else (down, 2 * across))
    _check_tile(wider)
    check_memory(wider)
    return wider if wider.thread_registers <= MOST_REGISTERS else _roomier(wider)


def _by(lengths: tuple[int, ...]) -> str:
    return "x".join(map(str, lengths))


class KernelScales(NamedTuple):
    """What the text says of scales: the type's, members of a struct that multiply, code that loads words of A, of B."""

    of: Scaled
    functions: str
    vector: int
    a: str
    b: str


def source(gemm: Gemm, called: str) -> str:
    """The whole file."""
    d = gemm.cell("d")
    scales = None
    if gemm.scales:
        functions = "\n".join(f"  {line}" for line in instruction_functions(gemm.instruction))
        words = {name: loaded.code(f"scales_{name}") for name, loaded in gemm.scales.items()}
        scales = KernelScales(SCALED[gemm.type], functions, gemm.scales["a"].vector, **words)
    return templates.fill(
        Path(__file__).with_suffix(".cu"),
        version=__version__,
        dtype=dtype,
        gemm=gemm,
        called=called,
        path_code=path_code,
        struct_name=struct_name,
        fills=[fill(name, gemm.paths[name], gemm.copies(name)) for name in FACTORS],
        multiply="" if scales else multiply_function(gemm.instruction),
        scales=scales,
        store=staged.store(d, gemm.out, gemm.arch),
        start={"a": _start("a", gemm.a == "row", gemm.bits), "b": _start("b", gemm.b == "col", gemm.bits)},
        word=register_and_letter(d.fragment)[0],
        d=d.fragment,
    )


def _start(operand: str, along_k: bool, bits: int) -> tuple[str, str, str]:
    """Where tile 0 begins, what there is from where a tile begins, and how far the next one is on.

    `along_k`: lines lie along k. Of `bits` of an element: two of 4 are a byte.
    """
    side = {"a": "m", "b": "n"}[operand]
    ends = ((side, f"{side}0"), ("k", "k0")) if along_k else (("k", "k0"), (side, f"{side}0"))
    size = "* SIZE" if bits >= 8 else f"/ {8 // bits}"
    there = f"{ends[1][0]} - {ends[1][1]}{'' if bits >= 8 else ' + 1'}"
    left = f"{ends[0][0]} - {ends[0][1]}, ({there}) {size}"
    if along_k:
        return f"{operand} + {side}0 * ld{operand}", left, f"TILE_K {size}"
    return f"{operand} + {side}0 {size}", left, f"TILE_K * ld{operand}"
