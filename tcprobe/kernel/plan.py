"""What a block's tile takes of an SM: registers, shared and tensor memory, how many blocks fit, cycles of its parts.

>>> from tcprobe.kernel.plan import Request, budget
>>> found = budget(Request("sm_90", "bf16", (128, 256, 64), 4))
>>> found.multiply, found.registers["accumulators"], found.shared_bytes, found.blocks
('wgmma.mma_async.m64n256k16.f32.bf16.bf16', 128, 196608, 1)
>>> budget(Request("sm_100", "bf16", (128, 256, 64), 4, accumulators=2)).columns
512

Counted are accumulators and fragments of the multiplies and the stages of A and B; addresses, an epilogue's tile and
barriers come on top. Nothing is judged: what would not launch is refused with the number that is too large.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tcprobe.ask.plan_cost import CyclesAnswer, MeasuredCosts, PlanCycles, accesses_cost
from tcprobe.errors import UsageError, answer_or_none
from tcprobe.isa import arch as archs
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP, WARPGROUP, Arch
from tcprobe.isa.dtypes import DTYPES, dtype
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.occupancy import MOST_THREADS, REGISTERS, Block, block_registers, held, least, limits
from tcprobe.isa.operand import MULTIPLIED
from tcprobe.kernel.mma_sync import MOST_REGISTERS, Gemm
from tcprobe.kernel.staged import SCALED, element, shape
from tcprobe.question.answers import Answer, plain
from tcprobe.store.choose import Layers
from tcprobe.store.kinds.cost import Point
from tcprobe.text import Described, quoted
from tcprobe.values import Json

LEAST_COLUMNS = 32  # that tcgen05.alloc gives; it gives powers of two
MOST_SIDE = 1 << 16
LANES = 128  # of tensor memory
WIDEST = 256  # the most columns of a wgmma or tcgen05.mma


class Request(NamedTuple):
    """What is asked: `warps` along m and n of mma.sync; `accumulators` tiles of D in tensor memory, other `columns`."""

    arch: str
    type: str
    tile: tuple[int, int, int]
    stages: int = 2
    warps: tuple[int, int] | None = None
    accumulators: int = 1
    columns: int = 0
    scale_block: int | None = None
    multiply: str | None = None


class PartAnswer(Answer):
    """What an instruction does for the tile, and its cost."""

    part: str
    instruction: str
    issues: int
    wavefronts: int | None
    cycles: CyclesAnswer


class SharedBudget(Answer):
    """Bytes of shared memory: of the tile, of a stage, that a block has at most, that an SM has, and reserved ones."""

    bytes: int
    stage: int
    most: int
    of_sm: int
    reserved: int


class TensorBudget(Answer):
    """Columns of tensor memory: by operand, in all, as they are allocated, and that an SM has."""

    parts: dict[str, int]
    columns: int
    allocated: int
    most: int


class BudgetAnswer(Answer):
    """What a block's tile takes of an SM; blocks_per_sm by each limit, null where it is not stated."""

    arch: str
    type: str
    tile: tuple[int, int, int]
    stages: int
    multiply: str
    threads: int
    registers: dict[str, int]
    shared: SharedBudget
    tensor_memory: TensorBudget
    blocks_per_sm: dict[str, int | None]
    parts: list[PartAnswer]
    limits: str


class Part(NamedTuple):
    """A step of one tile along k: an instruction, how often all warps issue it, wavefronts, and cycles of an SM."""

    part: str
    instruction: str
    issues: int
    wavefronts: int | None
    cycles: PlanCycles

    @property
    def answer(self) -> PartAnswer:
        """What `--json` prints of it."""
        return PartAnswer.of(self, cycles=self.cycles.answer)

    def to_json(self) -> Json:
        return plain(self.answer)


@dataclass(frozen=True, repr=False)
class Budget(Described):
    """What a tile takes; `fits` has blocks of an SM by each limit, None where the limit is not stated."""

    request: Request
    device: Arch
    multiply: str
    threads: int
    registers: Mapping[str, int]
    shared_bytes: int
    tensor_memory: Mapping[str, int]
    fits: Mapping[str, int | None]
    parts: tuple[Part, ...]

    @property
    def columns(self) -> int:
        """Columns of tensor memory."""
        return sum(self.tensor_memory.values())

    @property
    def allocated(self) -> int:
        """Columns that one tcgen05.alloc gives for them: a power of two."""
        most = limits(self.device.number).tmem_columns
        return min(most, max(LEAST_COLUMNS, 1 << (self.columns - 1).bit_length())) if self.columns else 0

    @property
    def blocks(self) -> int:
        """Blocks of an SM by all limits that are stated."""
        return least(self.fits)

    @property
    def in_words(self) -> Iterator[str]:
        """A line each: what is multiplied, registers, shared memory, tensor memory, blocks, parts, sources."""
        asked, of = self.request, limits(self.device.number)
        tile = "x".join(map(str, asked.tile))
        yield (
            f"{tile} of {asked.type} on {self.device.name}, {asked.stages} stages: {self.multiply}, "
            f"{self.threads} threads"
        )
        each = ", ".join(f"{count} of {name}" for name, count in self.registers.items())
        yield f"registers per thread: {each}; {sum(self.registers.values())} of {MOST_REGISTERS}, and addresses"
        most = self.device.shared_kib << 10
        stage = self.shared_bytes // asked.stages
        yield f"shared memory: {self.shared_bytes} of {most} bytes per block, {stage} per stage"
        if of.tmem_columns:
            parts = ", ".join(f"{count} of {name}" for name, count in self.tensor_memory.items()) or "none"
            alloc = f"; one tcgen05.alloc gives {self.allocated}" if self.columns != self.allocated else ""
            yield f"tensor memory: {parts}: {self.columns} of {of.tmem_columns} columns{alloc}"
        by = ", ".join(f"{'not stated' if n is None else n} by {name}" for name, n in self.fits.items())
        yield f"blocks per SM: {self.blocks} ({by})"
        for part in self.parts:
            wavefronts = "" if part.wavefronts is None else f", {part.wavefronts} wavefronts"
            cycles = f": {part.cycles}" if str(part.cycles) else ""
            yield f"{part.part}: {part.issues} x {part.instruction}{wavefronts}{cycles}"
        yield f"limits: {of.source}"

    def to_json(self) -> Json:
        return plain(self.answer)

    @property
    def answer(self) -> BudgetAnswer:
        """What `--json` prints of it."""
        of, asked = limits(self.device.number), self.request
        shared = (self.device.shared_kib << 10, of.shared_kib << 10, of.reserved_kib << 10)
        return BudgetAnswer.of(
            asked,
            arch=self.device.name,
            multiply=self.multiply,
            threads=self.threads,
            registers={**self.registers, "together": sum(self.registers.values()), "most": MOST_REGISTERS},
            shared=SharedBudget(self.shared_bytes, self.shared_bytes // asked.stages, *shared),
            tensor_memory=TensorBudget(dict(self.tensor_memory), self.columns, self.allocated, of.tmem_columns),
            blocks_per_sm={**self.fits, "blocks": self.blocks},
            parts=[part.answer for part in self.parts],
            limits=of.source,
        )


def budget(asked: Request, layers: Layers | None = None) -> Budget:
    """What a tile takes; UsageError with the number where it would not launch."""
    device = archs.arch(asked.arch)
    if len(asked.tile) != 3 or not 0 < min(asked.tile) <= max(asked.tile) <= MOST_SIDE:
        raise UsageError(
            f"`tile` {'x'.join(map(str, asked.tile))}: three sides of 1 to {MOST_SIDE} are needed, 128x128x64."
        )
    if element(asked.type) not in (names := [kind.name for kind in DTYPES]):
        raise UsageError(f"`type` {quoted(asked.type)}: known are {', '.join([*names, *SCALED])}.")
    if limits(device.number).tmem_columns and asked.multiply != "mma":
        return _by_tensor_memory(_of_elements(asked), device, layers)
    if asked.columns or asked.accumulators != 1 or asked.scale_block:
        raise UsageError(
            f"`accumulators`, `columns` and `scale_block` are of tensor memory, which {device.name} lacks."
        )
    if device.name == "sm_90" and asked.multiply != "mma":
        return _by_warpgroups(asked, device, layers)
    return _by_warps(asked, device, layers)


def _of_elements(asked: Request) -> Request:
    """A kernel's type with scales, such as nvf4, as its elements and how many of them share a scale."""
    if asked.type not in SCALED:
        return asked
    of = SCALED[asked.type]
    if asked.scale_block not in (None, of.block):
        raise UsageError(f"`scale_block` {asked.scale_block}: scales of {asked.type} are of {of.block} elements.")
    return asked._replace(type=of.element, scale_block=of.block)


def _stage_bytes(asked: Request) -> int:
    """Of A and B of a tile along k."""
    m, n, k = asked.tile
    bits = (m + n) * k * dtype(element(asked.type)).bits
    if bits % 8:
        raise UsageError(f"{m + n} x {k} of {asked.type} are no whole bytes.")
    return bits // 8


def _made(  # noqa: PLR0913, PLR0917
    asked: Request,
    device: Arch,
    multiply: str,
    threads: int,
    registers: Mapping[str, int],
    tensor_memory: Mapping[str, int],
    parts: tuple[Part, ...],
) -> Budget:
    """The budget; UsageError where a block would not launch."""
    of, shared = limits(device.number), _stage_bytes(asked) * asked.stages
    together = sum(registers.values())
    refused = [
        (threads, MOST_THREADS, "threads per block"),
        (together, MOST_REGISTERS, "registers per thread"),
        (shared, device.shared_kib << 10, "bytes of shared memory per block"),
        (sum(tensor_memory.values()), of.tmem_columns, "columns of tensor memory"),
        (block_registers(threads, together), REGISTERS, "registers per block"),
    ]
    for needed, most, what in refused:
        if needed > most:
            detail = ""
            if what.startswith("columns"):
                detail = f" ({', '.join(f'{count} of {name}' for name, count in tensor_memory.items())})"
            raise UsageError(f"this would not launch on {device.name}: {needed} {what}{detail}; at most {most}.")
    fits = held(device.number, Block(threads, together, shared))
    if sum(tensor_memory.values()):
        columns = max(LEAST_COLUMNS, 1 << (sum(tensor_memory.values()) - 1).bit_length())
        fits["tensor memory"] = max(1, of.tmem_columns // columns)
    return Budget(asked, device, multiply, threads, registers, shared, tensor_memory, fits, parts)


def _multiply_of(asked: Request, device: Arch, layers: Layers | None) -> Instruction:
    """The widest dense mma.sync of a type that an arch has, into f32, s32 or f64."""
    if asked.type in SCALED:
        return Gemm(device.name, asked.type, asked.tile).instruction
    into = {"f64": "f64"}.get(asked.type, "f32" if dtype(asked.type).is_float else "s32")
    del layers
    able = [
        row
        for row in inventory.of_family("mma")
        if row.metadata is None
        and not row.scales
        and all(factor.type == asked.type for factor in row.factors)
        and row.fragment("d").type == into
        and row.target.on(device)
    ]
    if not able:
        raise UsageError(
            f"{device.name} has no dense mma of {asked.type} into {into}: `tcprobe list mma --arch {device.name}`."
        )
    return max(able, key=lambda row: (row.shape.m * row.shape.n * row.shape.k, row.shape.m))


def _by_warps(asked: Request, device: Arch, layers: Layers | None) -> Budget:
    row, (m, n, k), warps = _multiply_of(asked, device, layers), asked.tile, asked.warps or (2, 2)
    if len(warps) != 2 or min(warps) < 1:
        raise UsageError(f"`warps` {'x'.join(map(str, warps))}: two sides of 1 or more are needed, such as 2x2.")
    one = shape(row)
    for side, along, each, name in ((m, warps[0], one.m, "m"), (n, warps[1], one.n, "n"), (k, 1, one.k, "k")):
        if side % (along * each):
            raise UsageError(f"`tile` {name} {side} is not a multiple of {along * each}: {along} x {each} of {row.id}.")
    down, across = m // warps[0] // one.m, n // warps[1] // one.n
    a, b, d = (row.fragment(name).registers for name in MULTIPLIED)
    registers = {"accumulators": down * across * d, "fragments": 2 * (down * a + across * b)}
    count = warps[0] * warps[1] * down * across * (k // one.k)
    parts = [*_loads(asked, device, layers, warps), _multiplies(row.id, count, device, layers)]
    return _made(asked, device, row.id, WARP * warps[0] * warps[1], registers, {}, tuple(parts))


def _loads(asked: Request, device: Arch, layers: Layers | None, warps: tuple[int, int]) -> Iterator[Part]:
    """What brings A and B from shared memory, where the kernel of the arch has a path for them."""
    gemm = Gemm(device.name, asked.type, asked.tile, asked.stages, layers=layers, warps=warps)
    for name in ("a", "b"):
        plan = answer_or_none(lambda name=name: gemm.paths[name])  # type: ignore[misc]
        if plan is not None:
            step, times = plan.registers, warps[0] * warps[1]
            issues, wavefronts = len(step.issues()) * times, (step.wavefronts or 0) * times
            cycles = accesses_cost(step.instruction, issues, wavefronts, MeasuredCosts(device.name, layers))
            yield Part(f"{name.upper()} to registers", step.instruction, issues, wavefronts, cycles)


def _multiplies(id_: str, count: int, device: Arch, layers: Layers | None) -> Part:
    """The multiplies of one tile along k, by their measured interval."""
    costs = MeasuredCosts(device.name, layers)
    measured = costs.cost(id_)
    cycles = costs.without(id_, id_)
    if measured is not None:
        best = measured.body.interval
        each = best.cycles if isinstance(best, Point) else min((flight.cycles for flight in best or []), default=None)
        cycles = PlanCycles(round(count * each, 1)) if each else cycles
    return Part("multiply", id_, count, None, cycles)


def _by_warpgroups(asked: Request, device: Arch, layers: Layers | None) -> Budget:
    from tcprobe.kernel.wgmma import FORMS

    m, n, k = asked.tile
    if asked.type not in FORMS:
        raise UsageError(f"wgmma multiplies {', '.join(FORMS)}, not {asked.type}; `multiply` mma takes mma.sync.")
    wide = next(
        (n // parts for parts in range(1, n + 1) if n % parts == 0 and n // parts <= WIDEST and n // parts % 8 == 0), 0
    )
    if m % 64 or not wide:
        raise UsageError(f"`tile` {m}x{n}x{k}: wgmma takes 64 rows and 8 to {WIDEST} columns by 8 at a time.")
    row = inventory.instructions().get(f"wgmma.mma_async.m64n{wide}{FORMS[asked.type]}")
    if row is None:
        raise UsageError(f"there is no wgmma of {asked.type} with {wide} columns.")
    if k % row.shape.k:
        raise UsageError(f"`tile` k {k} is not a multiple of {row.shape.k}, the k of {row.id}.")
    if asked.warps and (len(asked.warps) != 2 or min(asked.warps) < 1 or (asked.warps[0] * asked.warps[1]) % 4):
        raise UsageError(f"`warps` {'x'.join(map(str, asked.warps))}: wgmma takes warpgroups of 4 warps.")
    groups = asked.warps[0] * asked.warps[1] // 4 if asked.warps else min(m // 64, 2)
    if m // 64 * (n // wide) % groups:
        raise UsageError(
            f"`tile` {m}x{n}x{k}: {m // 64 * (n // wide)} multiplies are not shared evenly by {groups} warpgroups."
        )
    tiles = m // 64 * (n // wide)
    registers = {"accumulators": tiles // groups * row.fragment("d").registers, "fragments": 0}
    parts = (_multiplies(row.id, tiles * (k // row.shape.k), device, layers),)
    return _made(asked, device, row.id, WARPGROUP * (1 + groups), registers, {}, parts)


_KINDS = {"f16": "f16", "bf16": "f16", "tf32": "tf32", "s8": "i8", "u8": "i8"}
_K_BITS = 256  # bits of k of a dense tcgen05.mma


def _by_tensor_memory(asked: Request, device: Arch, layers: Layers | None) -> Budget:
    (m, n, k), bits = asked.tile, dtype(asked.type).bits
    scaled = asked.scale_block is not None
    narrow = asked.type in ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
    kind = _KINDS.get(asked.type) or ("mxf8f6f4" if scaled else "f8f6f4") if narrow or asked.type in _KINDS else ""
    if asked.type == "e2m1" and scaled:
        kind = "mxf4nvf4" if asked.scale_block == 16 else "mxf4"
    row = inventory.instructions().get(f"tcgen05.mma.cta_group::1.kind::{kind}") if kind else None
    if row is None or (scaled and "mx" not in kind):
        raise UsageError(f"tcgen05.mma multiplies no {asked.type}{' with scales' if scaled else ''}.")
    if asked.scale_block not in (None, 16, 32):
        raise UsageError(f"`scale_block` {asked.scale_block}: scales are of 16 or 32 elements along k.")
    if scaled and asked.scale_block == 16 and kind != "mxf4nvf4":
        raise UsageError(f"`scale_block` 16 is of e2m1 alone; {asked.type} has scales of 32 elements.")
    sizes = [side for side in row.stated["m_values"] if m % int(side) == 0]
    wide = next((n // parts for parts in range(1, n + 1) if n % parts == 0 and n // parts in row.stated["n_values"]), 0)
    if not sizes or not wide:
        raise UsageError(
            f"`tile` {m}x{n}x{k}: {row.id} takes M of {', '.join(map(str, row.stated['m_values']))} "
            f"and N up to {WIDEST}."
        )
    each_k = _K_BITS // (8 if narrow and kind in ("f8f6f4", "mxf8f6f4") else max(bits, 4))
    if k % each_k:
        raise UsageError(f"`tile` k {k} is not a multiple of {each_k}, the k of {row.id}.")
    own = int(max(sizes))
    memory = {"accumulators": asked.accumulators * (m // own) * n}
    if asked.scale_block:
        groups = -(-k // asked.scale_block // 4) or 1
        memory["scales of A"] = 4 * groups * -(-m // LANES)
        memory["scales of B"] = 4 * groups * -(-n // LANES)
    if asked.columns:
        memory["others"] = asked.columns
    if asked.warps and (len(asked.warps) != 2 or min(asked.warps) < 1):
        raise UsageError(f"`warps` {'x'.join(map(str, asked.warps))}: two sides of 1 or more are needed, such as 4x1.")
    threads = WARP * asked.warps[0] * asked.warps[1] if asked.warps else 6 * WARP
    registers = {"accumulators": 0, "fragments": 0, "epilogue": min(n, WARP)}
    count = m // own * (n // wide) * (k // each_k)
    return _made(asked, device, row.id, threads, registers, memory, (_multiplies(row.id, count, device, layers),))
