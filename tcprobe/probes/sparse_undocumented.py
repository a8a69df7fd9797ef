"""What PTX does not document of sparse multiplies: metadata values that are not legal, and selectors beyond the last.

Results are in terms of measured tables: which column of its chunk a stored element of A meets under each uniform value
of four bits, and which lanes' metadata counts under a selector.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tcprobe.errors import ProbeError
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP
from tcprobe.isa.instruction import Instruction, sparsity
from tcprobe.isa.operand import MULTIPLIED, SPARSE_INPUTS
from tcprobe.layout.arrays import Bytes, Ints, Words
from tcprobe.layout.structure import elements
from tcprobe.layout.table import Table, Tables
from tcprobe.probes.experiment import Bench, Context, Dialogue, FormDialogue, Readout, known_tables
from tcprobe.probes.ptx import Kernel, Launch
from tcprobe.probes.slots import codes, one_hot, pack
from tcprobe.probes.sparse import PLACES, b_images, decode_selector, kernel, launches
from tcprobe.store.kinds.undocumented import SELECTOR, Body, Outcome
from tcprobe.text import one_line

KIND = "undocumented"
MOST_WORDS = 200
MOST = 3  # ptxas refuses larger selectors as a syntax error
NIBBLES = 16
NOWHERE, ELSEWHERE = -1, -2
Read = list[list[int] | None]  # by field of four bits: positions in the chunk


def undocumented_selectors(instruction: Instruction) -> list[int]:
    """The selectors up to MOST that PTX does not define for the instruction."""
    return list(range(len(instruction.fragment("e").selectors), MOST + 1))


def nibble_launch(instruction: Instruction) -> Launch:
    """Every A slot alone under each of the 16 values of four bits, the same everywhere; selector 0."""
    a, b, c, e = (instruction.fragment(operand) for operand in SPARSE_INPUTS)
    inputs = (
        one_hot(a.slots, a.slot_bits, a.one),
        codes(b.slots, b.slot_bits, b.one),
        one_hot(c.slots, c.slot_bits, c.one)[:1],
        pack(np.arange(NIBBLES)[:, None].repeat(PLACES, axis=1), 4),
    )
    size = NIBBLES * (1 + a.slots) * WARP * 8
    return Launch(kernel(instruction, e.selectors[0]), (1 + a.slots, NIBBLES, 1), inputs, 0, size)


def selector_launch(instruction: Instruction, selector: int) -> Launch:
    """The launch of an undocumented selector, like the probe's launch of a documented one."""
    first, number = launches(instruction)[0], kernel(instruction, selector)
    return Launch(number, first.grid, first.inputs, 0, first.output_bytes)


def decode_nibbles(instruction: Instruction, tables: Tables, raw: Bytes) -> list[Read]:
    """By value of four bits and field: the positions in its chunk at which a stored unit is multiplied.

    [] if it is multiplied nowhere. None if units differ, or if one meets several positions or something outside its
    chunk.
    """
    rule, a = sparsity(instruction.fragment("e")), instruction.fragment("a")
    words = np.ascontiguousarray(raw).view(np.uint32).reshape(NIBBLES, 1 + a.slots, WARP, 2)[:, 1:]
    positions = _positions(instruction, tables, words)
    row, stored, _ = elements(tables["a"]).tolist()
    e = instruction.fragment("e")
    fields = tables["e"].selection(e.selectors[0]).inverse
    # the field, within four bits, that governs each A slot
    half = np.array([fields[r, s - s % e.span][0] for r, s in zip(row, stored, strict=True)]) % rule.fields
    found = [[set(image[half == field].tolist()) for field in range(rule.fields)] for image in positions]
    return [[None if len(met) > 1 or ELSEWHERE in met else sorted(met - {NOWHERE}) for met in line] for line in found]


def decode_selected(instruction: Instruction, tables: Tables, raw: Bytes, selector: int) -> int | None:
    """The documented selector under which the same fields count; None if there is none.

    ProbeError as `decode_selector`, and if D gains other rows of A.
    """
    d, _, field = decode_selector(instruction, raw, selector)
    row, stored, _ = elements(tables["a"])
    (of_d, _, _), e = elements(tables["d"]), instruction.fragment("e")
    if (of_d[d] != row[:, None]).any():
        raise ProbeError(f"{instruction.name}, selector {selector}: D adds other rows of A.")
    for documented in e.selectors:
        of_field, first, _ = elements(tables["e"].selection(documented))
        if (of_field[field] == row).all() and (first[field] == stored - stored % e.span).all():
            return documented
    return None


def _positions(instruction: Instruction, tables: Tables, words: Words) -> Ints:
    """By image and A slot, the position in its chunk at which it is multiplied, NOWHERE, or ELSEWHERE.

    An answer encodes one slot of B. If an A slot meets several, D is not one, and the sign bit is set.
    """
    rule, images = sparsity(instruction.fragment("e")), b_images(instruction)
    (row, stored, _), (k, n, _), (of_d, col, _) = (elements(tables[operand]) for operand in MULTIPLIED)
    slots = np.arange(len(of_d))
    shift = (images * (slots % 4 // 2)).astype(np.uint32)
    answers = words[:, :, slots // 4, slots % 2] >> shift & np.uint32((1 << images) - 1)
    mine = np.argsort(of_d, kind="stable").reshape(instruction.shape.m, -1)[row]
    own_answers = np.take_along_axis(answers, mine[None], axis=2)
    b = np.minimum(own_answers >> 1, len(k) - 1).astype(np.int64)
    lone = (own_answers & 1).all(axis=2) & (answers.astype(bool).sum(axis=2) == mine.shape[1])
    lone &= (n[b] == col[mine]).all(axis=2) & (k[b] == k[b][:, :, :1]).all(axis=2)
    unit, inner = k[b[:, :, 0]] // rule.span, k[b[:, :, 0]] % rule.span
    position = unit - stored // (rule.fields * rule.span) * rule.positions
    lone &= (position >= 0) & (position < rule.positions) & (inner == stored % rule.span)
    positions = np.where(lone, position, np.where(answers.any(axis=2), ELSEWHERE, NOWHERE))
    return np.where((words >> 31).any(axis=(2, 3)), ELSEWHERE, positions)


@dataclass(frozen=True)
class NibblesExperiment(FormDialogue):
    """Every value of four bits of metadata."""

    kind = KIND

    def kernels(self) -> list[Kernel]:
        return [nibble_launch(self.row).kernel]

    def measure(self, bench: Bench) -> Readout:
        """ "raw": the launch's output."""
        return {"raw": bench.run([nibble_launch(self.row)])[0].copy()}

    def conclude(self, reading: Readout, context: Context) -> Body:
        return Body(nibbles=decode_nibbles(self.row, _tables(self.row, context), reading["raw"]))


@dataclass(frozen=True)
class SelectorExperiment(FormDialogue):
    """A selector that PTX does not allow. A refusal, or a lost device, is a finding too."""

    selector: int
    kind = KIND

    @property
    def id(self) -> str:
        return f"{self.row.id}{SELECTOR}{self.selector}"

    def kernels(self) -> list[Kernel]:
        return [kernel(self.row, self.selector)]

    def measure(self, bench: Bench) -> Readout:
        """ "raw": the launch's output."""
        return {"raw": bench.run([selector_launch(self.row, self.selector)])[0].copy()}

    def conclude(self, reading: Readout, context: Context) -> Body:
        """Which documented selector it equals, if any."""
        tables = _tables(self.row, context)
        same = decode_selected(self.row, tables, reading["raw"], self.selector)
        return Body(selector=Outcome("runs", "its own map" if same is None else "", same))

    def instead(self, event: str, words: str) -> Body:
        """Why it does not run."""
        return Body(selector=Outcome(event, one_line(words)[:MOST_WORDS]))  # type: ignore[arg-type]


def _tables(instruction: Instruction, context: Context) -> dict[str, Table]:
    return known_tables(instruction, context.known_table, "tcprobe run")


def experiments() -> list[Dialogue]:
    """For each sparse warp-level multiply its metadata values; then the selectors, which may cost the device."""
    rows = [row for row in inventory.executed_by(WARP) if row.metadata and not row.scales]
    tried = [SelectorExperiment(row, number) for row in rows for number in undocumented_selectors(row)]
    return [*map(NibblesExperiment, rows), *tried]
