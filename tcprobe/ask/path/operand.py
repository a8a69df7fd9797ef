"""The path of a tile into shared memory as wgmma reads it there: filled, then behind descriptors, proven byte by byte.

>>> from tcprobe.isa.names import resolve
>>> from tcprobe.store.choose import alone
>>> from tcprobe.store.results import published
>>> from tcprobe.ask.path.plan import PathOptions
>>> b = resolve("wgmma.m64n64k16.f32.bf16.bf16.b_smem").shared_operand
>>> found = operand_path(b, alone(published()), PathOptions("64x64", "col", "SWIZZLE_128B", fill="tma"))
>>> [step.instruction.split(".")[0] for step in found.steps], found.reads.issues()[1]
(['cp', 'wgmma'], {'descriptor': '0x4000004000010002', 'at': [16, 0], 'shared': 32})

The tile lies in blocks as wide as a row of the swizzle's pattern, 16 bytes without one: the first of every line, then
the second of every line (`ask.descriptor`, which says why). So a box of a tensor map fills a block, and one descriptor
serves all multiplies, its start address moving on. A path is proven by simulation: the bytes of every element, numbered
in global memory, must be where the measured formula of descriptors (`layout.descriptor`) has the hardware look for
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tcprobe.ask.banks.accesses import NONE, Shared, Tile, parse_shared, parse_tile
from tcprobe.ask.banks.patterns import rules_for
from tcprobe.ask.descriptor import SharedTile
from tcprobe.ask.descriptor import tile as shared_tile
from tcprobe.ask.path.plan import (
    FILLERS,
    FILLS,
    Advance,
    OptionChange,
    PathAnswer,
    PathOptions,
    Planned,
    TileRequest,
    counts_table,
    global_words,
    nearest,
    step_answer,
    step_words,
)
from tcprobe.ask.path.steps import SHARED_TO_REGISTERS, Memory, PathStep
from tcprobe.ask.shared_operand import shared_map
from tcprobe.errors import UsageError
from tcprobe.isa.arch import arch
from tcprobe.isa.instruction import SharedOperand
from tcprobe.layout.arrays import Ints
from tcprobe.layout.descriptor import UNIT, Descriptor
from tcprobe.question.answers import plain
from tcprobe.references.shared_memory import tma
from tcprobe.store.choose import Layers
from tcprobe.store.kinds.tensor_maps import rests_on
from tcprobe.values import Json

READ = "wgmma"  # what --with may say: an operand in shared memory is read by its multiply alone


@dataclass(frozen=True)
class OperandRequest(TileRequest):
    """On its way to an operand behind a descriptor; `smem_tile`: the tile as wgmma takes it."""

    operand: SharedOperand
    smem_tile: SharedTile

    @property
    def ends(self) -> tuple[str, str]:
        """The operand, and that it is read by descriptor."""
        return self.operand.id, "descriptor"

    @property
    def axis(self) -> str:
        """What k is of the operand: its rows or its columns."""
        return "row" if self.operand.held.name == "b_smem" else "col"

    @property
    def depth(self) -> int:
        """Elements of k that one multiply takes, as they are stored."""
        return self.operand.held.rows if self.axis == "row" else self.operand.held.cols


@dataclass(frozen=True)
class DescriptorRead:
    """Multiplies that read the tile where it lies: operand j begins at corners[j], its descriptor at starts[j].

    All of a k step, one block of lines after the other, then those of the next.
    """

    request: OperandRequest
    corners: Ints
    starts: tuple[int, ...]
    evidence: tuple[str, ...]
    kind: str = SHARED_TO_REGISTERS
    wavefronts: None = None
    ideal: None = None

    @property
    def instruction(self) -> str:
        """The multiply."""
        return self.request.operand.instruction.name

    @property
    def ptx(self) -> tuple[str, ...]:
        """The multiply, which is its only instruction."""
        return (self.instruction,)

    @property
    def descriptors(self) -> list[Descriptor]:
        """Of a tile that begins at shared address 0."""
        return [self.request.smem_tile.descriptor._replace(start=start) for start in self.starts]

    def issues(self) -> list[Json]:
        """`corner`: row and column of the operand in the tile; `shared`: from the tile's start to its start address."""
        return [
            {"descriptor": f"{descriptor.encode():#018x}", "at": corner, "shared": descriptor.start}
            for descriptor, corner in zip(self.descriptors, self.corners.tolist(), strict=True)
        ]

    def move(self, memory: Memory) -> None:
        """Nothing moves: UsageError where a multiply would not find its bytes."""
        matrix, tile = self.request.operand.held, self.request.tile
        turned = tile.contiguous == "col"
        lines, length = (matrix.cols, matrix.rows) if turned else (matrix.rows, matrix.cols)
        line, byte = np.arange(lines)[:, None], np.arange(length * tile.bits // 8)[None, :]
        for descriptor, (row, col) in zip(self.descriptors, self.corners.tolist(), strict=True):
            first, inner = (col, row) if turned else (row, col)
            units = memory.read_shared(descriptor.start + self._offset(descriptor, (line, byte)), 1)
            start = (first + line) * memory.line_units + (inner * tile.bits // 8 + byte) * memory.per_byte
            if not np.array_equal(units, start[..., None] + np.arange(memory.per_byte)):
                raise UsageError(
                    f"{self.request.operand.id}: at ({row}, {col}) no start address aligns its bytes with "
                    f"the {descriptor.swizzle or UNIT}-byte pattern."
                )

    def _offset(self, descriptor: Descriptor, line_and_byte: tuple[Ints, Ints]) -> Ints:
        """From the start address to bytes of lines of memory: those of k, or, with major mn, those of m and n."""
        line, byte = line_and_byte
        if self.request.smem_tile.major == "k":
            return np.asarray(descriptor.offset("k", line, byte))
        return np.asarray(descriptor.offset("mn", byte, line))


@dataclass(frozen=True, repr=False)
class OperandPlan(Planned):
    """The two steps, proven."""

    request: OperandRequest
    transfer: PathStep
    reads: DescriptorRead

    def planned(self, full: bool) -> Iterator[str]:
        """The steps, with the reasons of the descriptor's fields."""
        request, tile, shared, smem_tile = self.request, self.request.tile, self.request.shared, self.request.smem_tile
        descriptor, ahead = smem_tile.descriptor, self.advance
        yield f"{global_words(request)}: major {smem_tile.major}"
        yield (
            f"in shared memory {shared}: {tile.line_bytes // shared.block} blocks of {shared.block} bytes of each "
            f"of {tile.lines} lines, {shared.bytes(tile)} bytes, start aligned to {self.alignment}"
        )
        yield from counts_table(request, self.steps)
        for step in self.steps:
            yield from step_words(request, step)
        yield (
            f"  descriptor {descriptor.encode():#018x} | start address / 16: LBO {descriptor.lbo}, "
            f"SBO {descriptor.sbo}, swizzle {descriptor.swizzle or 'none'}"
        )
        if full:
            yield f"  LBO: {smem_tile.reasons['lbo']}"
            yield f"  SBO: {smem_tile.reasons['sbo']}"
        if self.blocks > 1:
            starts = ", ".join(map(str, self.reads.starts[: self.blocks]))
            yield f"  blocks of {smem_tile.block} lines: start address + {starts}"
        yield (
            f"k: {ahead.steps} steps along {ahead.axis}s of {ahead.issues} issues each, start address + "
            f"{', '.join(map(str, ahead.shared))}; the next tile {ahead.global_} bytes further in global memory"
        )
        yield f"proven: every multiply finds all bytes of {len(self.reads.starts)} operands"

    @property
    def code(self) -> str:
        """A CUDA header of it."""
        from tcprobe.ask.path.code import operand_source

        return operand_source(self)

    @property
    def cute(self) -> str:
        """CuTe's text of it."""
        from tcprobe.ask.path.code import operand_cute

        return operand_cute(self)

    @property
    def steps(self) -> tuple[PathStep, ...]:
        """In the order in which they are made."""
        return self.transfer, self.reads

    @property
    def alignment(self) -> int:
        """Of the tile's start, so that the base offset of every descriptor is 0."""
        return max(self.request.smem_tile.alignment, tma.ALIGNMENT if self.request.fill_kind == "tma" else UNIT)

    @property
    def blocks(self) -> int:
        """Operands of a k step."""
        return self.request.smem_tile.lines // self.request.smem_tile.block

    @property
    def evidence(self) -> list[str]:
        """What each link rests on."""
        links = [f"{step.instruction}: {words}" for step in self.steps for words in step.evidence]
        return [*links, f"banks: {self.request.rules.evidence}"]

    @property
    def advance(self) -> Advance:
        """The k-loop: what is added to the start address of step 0."""
        request, starts = self.request, self.reads.starts
        extent = request.tile.rows if request.axis == "row" else request.tile.cols
        beyond = extent * (request.ld_bytes if request.axis == request.tile.contiguous else request.tile.bits // 8)
        first = starts[:: self.blocks]
        return Advance(request.axis, len(first), self.blocks, "+", tuple(n - first[0] for n in first), beyond)

    def to_json(self) -> Json:
        """The whole answer as plain data."""
        request, smem_tile = self.request, self.request.smem_tile
        answer = PathAnswer.of(
            self,
            fragment=request.operand.id,
            arch=request.rules.for_arch,
            **request.placed,
            fragments=len(self.reads.starts),
            registers=0,
            major=smem_tile.major,
            descriptor=f"{smem_tile.descriptor.encode():#018x}",
            reasons=smem_tile.reasons,
            proven=True,
            steps=[step_answer(request, self.transfer), step_answer(request, self.reads)],
            k=self.advance.answer,
            confidence=request.rules.confidence.answer,
        )
        return plain(answer)


def operand_path(operand: SharedOperand, layers: Layers, options: PathOptions, name: str | None = None) -> OperandPlan:
    """The proven path of a tile to an operand behind a descriptor on an arch, its own without one.

    UsageError says why there is none: no descriptor describes such a tile, or nothing fills it; and the nearest.
    """
    here = arch(name or operand.instruction.target.name.rstrip("abcdefghijklmnopqrstuvwxyz"))
    if not operand.instruction.target.on(here):
        raise UsageError(f"{operand.id} needs {operand.instruction.target.name}; {here} does not have it.")
    finder = _PathFinder(operand, layers, here.name)
    try:
        return finder.prove(options)
    except UsageError as error:
        other = "col" if options.contiguous == "row" else "row"
        kinds: list[list[OptionChange]] = [
            [(f"`access` {READ}", {"access": None})] if options.access else [],
            [(f"`placed` {mode}", {"placed": mode}) for mode in (*reversed(tma.names()), "plain")],
            [("no `ld`", {"ld": None})] if options.ld else [],
            [(f"`fill` {fill}", {"fill": fill}) for fill in FILLS],
            [(f"`contiguous` {other}", {"contiguous": other, "ld": None})],
        ]
        hint = nearest(kinds, lambda changed: finder.prove(options._replace(**changed)))  # type: ignore[arg-type]
        raise UsageError(f"no such path. {error} {hint}") from None


class _PathFinder(NamedTuple):
    """The operand that a path leads to, what is saved, and the arch."""

    operand: SharedOperand
    layers: Layers
    arch: str

    def prove(self, options: PathOptions) -> OperandPlan:
        """The path, gone from end to end; UsageError where it cannot be."""
        if options.access not in (None, READ):
            raise UsageError(f"`access` {options.access}: {self.operand.id} is read only by its multiply.")
        request = self.request(options)
        reads, transfer = _reads(request, self.layers), FILLERS[request.fill_kind](request)
        memory = Memory(request.tile, request.ld_bytes, request.shared.bytes(request.tile), 0, 0)
        for step in (transfer, reads):
            step.move(memory)
        return OperandPlan(request, transfer, reads)

    def request(self, options: PathOptions) -> OperandRequest:
        """What the options mean."""
        operand = self.operand
        options.check_type(operand.held.type)
        tile = parse_tile(options.tile, operand.held.type, options.contiguous, operand.held.slot_bits)
        shared, smem_tile = _tile_in_memory(operand, tile, options.placed)
        ld = tile.length if options.ld is None else options.ld
        boxes = rests_on(self.layers, self.arch) if options.fill == "tma" else ""
        rules = rules_for(self.arch, self.layers)
        return OperandRequest(tile, ld, shared, options.fill or "cp.async", rules, operand, smem_tile, boxes=boxes)


def _tile_in_memory(operand: SharedOperand, tile: Tile, text: str) -> tuple[Shared, SharedTile]:
    """Where the tile lies, and how wgmma takes it; UsageError where no descriptor says so."""
    shared = parse_shared(text)
    bits, *rest = shared.swizzle
    if shared.padding or (bits and (bits > 3 or rest != [4, 3])):
        raise UsageError(
            f"`placed` {text}: descriptors know no padding, and of swizzles sw:1,4,3, sw:2,4,3 and "
            "sw:3,4,3 alone, which are SWIZZLE_32B, 64B and 128B."
        )
    _check_whole(operand, tile)
    lines, k = (tile.cols, tile.rows) if operand.held.name == "b_smem" else (tile.rows, tile.cols)
    block, depth = (
        (operand.held.cols, operand.held.rows)
        if operand.held.name == "b_smem"
        else (operand.held.rows, operand.held.cols)
    )
    major = "k" if (tile.contiguous == "row") == (operand.held.name == "a_smem") else "mn"
    width = 16 << bits if bits else 0
    smem_tile = shared_tile((lines, k), operand.held.type, major, width, (block, depth * tile.bits // 8))
    return Shared(swizzle=shared.swizzle if bits else NONE, block=width or UNIT), smem_tile


def _check_whole(operand: SharedOperand, tile: Tile) -> None:
    if tile.rows % operand.held.rows or tile.cols % operand.held.cols:
        raise UsageError(
            f"{operand.id} is {operand.held.rows} x {operand.held.cols}; a tile of {tile.rows} x {tile.cols} is not "
            "whole ones."
        )


def _reads(operand_request: OperandRequest, layers: Layers) -> DescriptorRead:
    """The multiplies' operands: k outermost, then lines."""
    operand, tile, smem_tile = operand_request.operand, operand_request.tile, operand_request.smem_tile
    row, col = np.mgrid[0 : tile.rows : operand.held.rows, 0 : tile.cols : operand.held.cols]
    corners = np.stack(
        [axis.ravel() if operand_request.axis == "row" else axis.T.ravel() for axis in (row, col)], axis=1
    )
    line, place = (corners[:, 1], corners[:, 0]) if tile.contiguous == "col" else (corners[:, 0], corners[:, 1])
    starts = operand_request.shared.linear(tile, line, place * tile.bits // 8)
    fields = {"lbo": smem_tile.descriptor.lbo, "sbo": smem_tile.descriptor.sbo}
    lying = shared_map(operand, layers, smem_tile.major, smem_tile.descriptor.swizzle, **fields)
    return DescriptorRead(
        operand_request, corners, tuple(int(start) for start in starts), (f"{operand.id}: {lying.evidence}",)
    )
