"""A GEMM of any arch that there is a kernel for: the one file, and what a launch needs to know.

>>> from tcprobe.kernel.gemm import GemmOptions, gemm
>>> made = gemm(GemmOptions("sm_80", "f16"))
>>> made.name, made.block, made.shared_bytes
('gemm_sm_80_f16_128x128x64', (128, 1, 1), 99328)
>>> made.grid(1000, 700)
(6, 8, 1)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, NamedTuple

from tcprobe.ask.descriptor import BoxAnswer
from tcprobe.code.names import FUNCTION, require_legal
from tcprobe.errors import UsageError, check_choice
from tcprobe.isa import inventory
from tcprobe.isa.arch import Arch, arch
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import Role
from tcprobe.kernel import mma_sync, tcgen05, wgmma
from tcprobe.kernel.mma_sync import Gemm, ways_of
from tcprobe.kernel.staged import OUTS, SCALED, element
from tcprobe.kernel.tcgen05 import TensorGemm
from tcprobe.kernel.wgmma import WarpgroupGemm, check
from tcprobe.question.answers import Answer, Meta, plain
from tcprobe.sass import lowering
from tcprobe.store.choose import Layers
from tcprobe.store.choose import layers as folders
from tcprobe.text import Described
from tcprobe.values import Json

MOST_SIDE = 2**31 - 1  # what m, n and k, an int, can be
MOST_DOWN = 65535  # blocks of a grid along y
DEPTH = 128  # bytes of k in a tile that is not asked for


LOOPED = 64  # tiles along k of a launch that is not asked for
LAUNCH = '''"""How {name} is launched, as `tcprobe ablate` asks."""

from tcprobe.kernel import products
from tcprobe.kernel.gemm import GemmOptions, gemm

MADE = gemm({options})
SIZE = {size}  # m, n and k


def launch(kernel):
    """Grid, block, bytes of shared memory, and arguments."""
    return products.launch(MADE, SIZE)
'''


class GemmOptions(NamedTuple):
    """The options of `tcprobe kernel gemm` as values; None: a default that fits the arch and the type."""

    arch: str
    type: str
    tile: tuple[int, int, int] | None = None
    warps: tuple[int, int] | None = None
    stages: int | None = None
    a: str = "row"
    b: str = "col"
    out: str | None = None
    name: str | None = None
    multiply: str | None = None
    cluster: int = 1
    cta_group: int | None = None


class TensorMapAnswer(BoxAnswer):
    """The box and modes of a tensor map, and what of the matrix is contiguous."""

    major: str


class FragmentLoad(Answer):
    """What loads a warp's part of the tile into registers, and its cycles of shared memory."""

    instruction: str
    wavefronts: int
    ideal: int


class LaunchAnswer(Answer):
    """What a launch needs to know."""

    kernel: str
    arch: str
    target: str
    type: str
    out: str
    tile: tuple[int, int, int]
    a: str
    b: str
    multiply: str
    stages: int
    warps: Annotated[str, Meta(description="Which warp has which part of D, as --warps of where takes it")]
    permute: str | None
    grid: list[int | str]
    block: tuple[int, int, int]
    cluster: int
    shared_bytes: int
    parameters: list[str]
    tensor_maps: dict[str, TensorMapAnswer]
    registers: dict[str, int]
    wavefronts: dict[str, FragmentLoad]
    warning: str | None
    evidence: list[str]


@dataclass(frozen=True, repr=False)
class GemmKernel(Described):
    """`source` is the whole file; `gemm` has the tile and what it takes."""

    name: str
    source: str
    gemm: Gemm | WarpgroupGemm | TensorGemm

    @property
    def in_words(self) -> Iterator[str]:
        """What a launch needs to know, and the warning if there is one."""
        yield from self.launch_words
        if self.warning:
            yield f"warning: {self.warning}"

    @property
    def launch_words(self) -> Iterator[str]:
        """What a launch needs to know."""
        head, grid, registers, *steps = self.launch_lines()
        yield from (head, f"{grid}; {registers}", *steps)

    @property
    def code(self) -> str:
        """The whole file, as `source`."""
        return self.source

    def explain(self, row: int, col: int, k: int) -> list[Json]:
        """How A(row, k), B(k, col) and D(row, col) go through the kernel: {"element", "steps"} of each."""
        from tcprobe.kernel.explain import explain

        return [dict(way) for way in explain(self, (row, col, k))]

    @property
    def block(self) -> tuple[int, int, int]:
        """Threads."""
        return self.gemm.threads, 1, 1

    @property
    def shared_bytes(self) -> int:
        """Of dynamic shared memory."""
        return self.gemm.shared_bytes

    def launch_file(self, mnk: tuple[int, int, int] | None = None) -> str:
        """Python that says how `tcprobe ablate` launches it, for a product of a size; by default one tile of D."""
        (rows, cols, depth), gemm = self.gemm.tile, self.gemm
        size = mnk or (rows * self.cluster, cols, LOOPED * depth)
        options = GemmOptions(
            gemm.arch.name,
            gemm.type,
            gemm.tile,
            gemm.warps if isinstance(gemm, Gemm) else None,
            gemm.stages,
            gemm.a,
            gemm.b,
            gemm.out,
            self.name,
            "mma" if isinstance(gemm, Gemm) else None,
            self.cluster if isinstance(gemm, WarpgroupGemm) else 1,
            gemm.cluster if isinstance(gemm, TensorGemm) else None,
        )
        return LAUNCH.format(name=self.name, options=options, size=size)

    def grid(self, m: int, n: int, k: int = 1) -> tuple[int, int, int]:
        """Blocks for a D of m x n; UsageError for more than a launch can have, or a side that is no int."""
        (rows, cols, _), together = self.gemm.tile, self.cluster
        if max(m, n, k) > MOST_SIDE:
            raise UsageError(f"{m} x {n} x {k}: the kernel takes m, n and k as int, at most {MOST_SIDE}.")
        down = -(-m // (rows * together)) * together
        if down > MOST_DOWN:
            most = MOST_DOWN // together * together * rows
            raise UsageError(
                f"m {m} takes {down} blocks along y, where a launch has at most {MOST_DOWN}: cut m into parts of at "
                f"most {most} rows."
            )
        return -(-n // cols), down, 1

    @property
    def cluster(self) -> int:
        """Blocks that share tiles of B; the kernel has their number as an attribute."""
        return self.gemm.cluster

    @property
    def parameters(self) -> list[str]:
        """The kernel's parameters, by name in order."""
        scales = ["sfa", "sfb"] if self.gemm.type in SCALED else []
        if not self.maps:
            return ["a", "b", *scales, "d", "m", "n", "k", "lda", "ldb", "ldd"]
        return ["map_a", "map_b", *(["map_d"] if "d" in self.maps else []), *scales, "d", "ldd", "m", "n", "k"]

    def to_json(self, mnk: tuple[int, int, int] | None) -> Json:
        """What a launch needs to know, for a product of a size or any."""
        return plain(self.answer(mnk))

    def answer(self, mnk: tuple[int, int, int] | None) -> LaunchAnswer:
        """What `--json` prints of it."""
        gemm, (rows, cols, _) = self.gemm, self.gemm.tile
        rows *= self.cluster
        below = f"(m + {rows - 1}) / {rows}" + (f" * {self.cluster}" if self.cluster > 1 else "")
        grid: list[int | str] = [f"(n + {cols - 1}) / {cols}", below, 1]
        return LaunchAnswer.of(
            gemm,
            kernel=self.name,
            arch=gemm.arch.name,
            target=gemm.compiled_for,
            multiply=gemm.instruction.id,
            warps=gemm.numbering[0],
            permute=gemm.numbering[1] or None,
            grid=list(self.grid(*mnk)) if mnk else grid,
            block=self.block,
            cluster=self.cluster,
            shared_bytes=self.shared_bytes,
            parameters=self.parameters,
            tensor_maps=self.maps,
            warning=self.warning,
        )

    def launch_lines(self) -> list[str]:
        """A line each: the kernel, its grid, its registers, and every step that goes through shared memory."""
        launch = self.to_json(None)
        return [
            f"{self.name}: {launch['multiply']}, {self.block[0]} threads, {self.shared_bytes} bytes of shared memory",
            f"grid: {launch['grid'][0]}, {launch['grid'][1]}",
            "registers: " + ", ".join(f"{count} of {name}" for name, count in launch["registers"].items()),
            *(
                f"{name}: {step['instruction']}, {step['wavefronts']} wavefronts for a warp's part, "
                f"ideal {step['ideal']}"
                for name, step in launch["wavefronts"].items()
            ),
        ]

    @property
    def where_words(self) -> str:
        """The options of `tcprobe where` with which it gives the thread and register of an element of D."""
        if isinstance(self.gemm, TensorGemm):
            m, n = self.gemm.tile[0] * self.gemm.cluster, self.gemm.tile[1]
            return f"tcprobe where {self.gemm.instruction.called}.d --m {m} --n {n}"
        warps, permute = self.gemm.numbering
        permuted = f" --permute '{permute}'" if permute else ""
        tile = "x".join(map(str, self.gemm.tile))
        return f"tcprobe where {self.gemm.instruction.id}.d --warps {warps} --tile {tile}{permuted}"

    @cached_property
    def warning(self) -> str | None:
        """What the compiler makes of a multiply that the arch's tensor cores lack, and which one they have; or None."""
        gemm = self.gemm
        layers = gemm.layers or folders(None, False)
        low = lowering.saved(gemm.instruction, gemm.arch, layers)
        if low is None or low.refused or low.native(gemm.instruction):
            return None
        slow = f"{gemm.instruction.id} on {gemm.arch.name} is {lowering.words(low, gemm.instruction)}"
        fast = _native(gemm.type, gemm.arch, layers)
        if fast is None:
            return f"{slow}. No multiply of {gemm.type} there is known to be done by tensor cores in that type."
        return f"{slow}. Tensor cores there multiply {gemm.type} by {fast.id}; a kernel without `multiply` has it."

    @property
    def maps(self) -> dict[str, Json]:
        """The tensor maps that it takes, none where it takes addresses."""
        return {} if isinstance(self.gemm, Gemm) else self.gemm.boxes


def gemm(options: GemmOptions, layers: Layers | None = None) -> GemmKernel:
    """The kernel; UsageError with the nearest that there is where it cannot be."""
    ways_of(options.type)
    _check_options(options)
    device = arch(options.arch)
    by_warpgroups = device.name == "sm_90" and options.multiply != "mma"
    by_tensor_memory = options.multiply != "mma" and tcgen05.multiplies(options.type, device)
    tile = options.tile or _tile(device, options.type, by_warpgroups, by_tensor_memory)
    own = f"gemm_{device.name}_{options.type}_{'x'.join(map(str, tile))}"
    name = require_legal(options.name, FUNCTION) if options.name else own
    operands: Any = {"a": options.a, "b": options.b, "stored": options.out, "layers": layers}
    if options.cta_group is not None and not by_tensor_memory:
        raise UsageError(f"`cta_group` {options.cta_group}: only kernels of tcgen05.mma have groups of CTAs.")
    if by_warpgroups:
        _check_warps(options.warps, tile)
        by_groups = check(
            WarpgroupGemm(device.name, options.type, tile, options.stages or 4, **operands, cluster=options.cluster)
        )
        return GemmKernel(name, wgmma.source(by_groups, name), by_groups)
    if options.cluster != 1:
        raise UsageError(
            f"`cluster` {options.cluster}: only the kernel of sm_90 has clusters, whose blocks share tiles through TMA."
        )
    if by_tensor_memory:
        if options.warps not in (None, (4, 1)):
            raise UsageError("`warps`: each of the 4 warps of a kernel of tcgen05.mma stores 32 rows of D: 4x1.")
        group, many = options.cta_group or 1, options.stages or 4
        tensor = tcgen05.check(TensorGemm(device.name, options.type, tile, many, **operands, cluster=group))
        return GemmKernel(name, tcgen05.source(tensor, name), tensor)
    stages = options.stages or (3 if device.number >= 80 else 2)
    warps = options.warps or ((2, 4) if options.type in SCALED else (2, 2))  # scales take registers too
    plain = mma_sync.check(Gemm(device.name, options.type, tile, stages, **operands, warps=warps))
    return GemmKernel(name, mma_sync.source(plain, name), plain)


def _check_options(options: GemmOptions) -> None:
    """UsageError for sides that are too few or too small, and words that are none."""
    for name, sides, count, example in (("tile", options.tile, 3, "128x128x64"), ("warps", options.warps, 2, "2x2")):
        if sides is not None and (len(sides) != count or min(sides) < 1):
            shown = "x".join(map(str, sides))
            raise UsageError(f"`{name}` {shown}: {count} sides of 1 or more are needed, such as {example}.")
    if options.stages is not None and options.stages < 1:
        raise UsageError(f"`stages` {options.stages}: 1 or more are needed.")
    check_choice("a", options.a, ("row", "col"))
    check_choice("b", options.b, ("row", "col"))
    check_choice("multiply", options.multiply, (None, "mma"))
    check_choice("cta_group", options.cta_group, (None, 1, 2))


def _native(kind: str, device: Arch, layers: Layers) -> Instruction | None:
    """The first dense multiply of A and B of a type that tensor cores of an arch do in it, None if none is known.

    By what multiplies become there, as `tcprobe lower` has it; wgmma is never emulated.
    """
    for row in inventory.instructions().values():
        factors = {operand.type for operand in row.operands if operand.role is Role.FACTOR}
        if ".sp" in row.id or not (factors == {kind} or kind in row.stated.get("ab_types", ())):
            continue
        if not row.target.on(device):
            continue
        low = lowering.saved(row, device, layers)
        if row.described or (low and not low.refused and low.native(row)):
            return row
    return None


def _tile(device: Arch, kind: str, by_warpgroups: bool, by_tensor_memory: bool) -> tuple[int, int, int]:
    """128 x 128, and k that fills a row of the widest swizzle, or half of one where there is little shared memory.

    wgmma takes 256 columns where D goes back as 16 bits, since f32's are stored as long as they are made. mxf8 has 4
    scales in 128 bytes, which half of a row would share out.
    """
    depth = DEPTH if by_warpgroups or device.shared_kib > 100 or kind == "mxf8" else DEPTH // 2
    cols = 256 if by_tensor_memory or (by_warpgroups and dtype(OUTS[kind][0]).bits == 16) else 128
    return 128, cols, depth * 8 // dtype(element(kind)).bits


def _check_warps(warps: tuple[int, int] | None, block_tile: tuple[int, int, int]) -> None:
    """UsageError for warps that are not the warpgroups of a tile."""
    needed = block_tile[0] // 16
    if warps and warps != (needed, 1):
        raise UsageError(
            f"`warps` {warps[0]}x{warps[1]}: on sm_90 a warp has 16 rows of its warpgroup's 64, so that a "
            f"tile of {block_tile[0]} rows has {needed}x1, beside the producer's."
        )
