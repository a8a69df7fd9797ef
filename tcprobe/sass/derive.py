"""Layouts of mma.sync that follow from machine code: forms that become one tensor-core instruction of known layout.

wmma.load -> tensor-core instruction -> wmma.store anchors the instruction's layout in memory addresses: the tables of
the wmma fragments say which element each word holds. An mma.sync form that becomes the same instruction, with its
registers in order, has that layout too. The code of all other forms is run (`evidence`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tcprobe import __version__
from tcprobe.isa.arch import WARP, Arch
from tcprobe.isa.instruction import Instruction
from tcprobe.layout.table import Table, Tables, slot_table
from tcprobe.probes.experiment import KnownTable, ptx_hash
from tcprobe.sass.cubin import Code, assemble
from tcprobe.sass.decode import UnreadError
from tcprobe.sass.evidence import (
    ContradictedError,
    Encoded,
    Pending,
    agree_with_references,
    by_code,
    encodings,
    tensor_opcodes,
)
from tcprobe.sass.product_check import Account, Crosscheck, MisfitError, Piece, Stage, stages
from tcprobe.sass.tensor import Traced, Word, computes, form, kernel, trace
from tcprobe.sass.toolchain import Toolchain
from tcprobe.store.finding import MEMORY, Measurement
from tcprobe.values import Json

TracedInstructions = Sequence[tuple[Instruction, Traced]]


@dataclass(frozen=True)
class Anchored:
    """The layout of a tensor-core opcode: tables of a, b, d, and of c if it was seen; and what anchors them."""

    tables: Tables
    source: str


@dataclass(frozen=True)
class Findings:
    """What follows from traces and tables.

    `opcodes`: layouts of tensor-core opcodes by name. `contested`: opcodes without one, because multiplies contradict
    each other. `contents`: by instruction, what a measurement holds; `failed`: why there is none.
    """

    verdict: Crosscheck
    opcodes: dict[str, Anchored]
    contested: frozenset[str]
    contents: dict[str, Json]
    failed: dict[str, str]

    @property
    def checked_experiments(self) -> set[str]:
        """The experiments whose tables were followed through a multiply."""
        return {experiment for account in self.verdict.accounts for experiment in account.experiments}


@dataclass(frozen=True)
class FormOutcomes:
    """What the code of mma.sync forms shows by itself.

    `contents` and `failed` as in `Findings`. `contradicted`: forms that fail because references state something else.
    `pending`: forms that cannot be concluded from their arch alone.
    """

    contents: dict[str, Json] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    contradicted: list[str] = field(default_factory=list)
    pending: list[Pending] = field(default_factory=list)


@dataclass(frozen=True)
class Derived:
    """What the code of multiplies shows: measurements, what they follow from, and the encodings of opcodes."""

    measurements: list[Measurement]
    conclusion: Findings
    forms: FormOutcomes
    encodings: dict[str, Encoded]


def derive(tools: Toolchain, arch: Arch, instructions: Sequence[Instruction], known_table: KnownTable) -> Derived:
    """What the code of multiplies shows on `arch`; `known_table` gives the arch's tables of wmma fragments.

    For a wmma.mma (method sass): which elements it never reads. For an mma.sync (method derived): its layout, if it
    follows. Forms whose code is not followed give nothing. The status is failed for forms that contradict the others,
    or what references state.
    """
    allowed = [i for i in instructions if i.target.on(arch) and i.target.name[-1].isdigit()]
    kernels = {i.id: kernel(i) for i in allowed}
    codes, _ = assemble(tools, list(kernels.values()), arch) if kernels else ({}, {})
    own = {i: codes[kernels[i.id].name] for i in allowed if kernels[i.id].name in codes}
    followed = [(i, traced) for i, code in own.items() if (traced := _trace(code, i))]
    findings = conclude(followed, known_table)
    alone = {i.id: opcode for i, traced in followed if i.family == "mma" and (opcode := _alone(i, traced))}
    by_form = conclude_forms({i: code for i, code in own.items() if i.family == "mma"}, arch, findings, alone)
    outcomes: dict[str, str | Json] = {**findings.contents, **findings.failed, **by_form.contents, **by_form.failed}
    methods = {i.id: "sass" if i.definitions else "derived" for i in own}
    measurements = [measurement(i, arch, methods[i.id], tools, outcomes[i.id]) for i in own if i.id in outcomes]
    return Derived(measurements, findings, by_form, encodings(own.values(), alone))


def measurement(
    instruction: Instruction, arch: Arch, method: str, tools: Toolchain, outcome: str | Json
) -> Measurement:
    """The measurement of a multiply, from its `outcome`: content, or why there is none, in words."""
    about = {
        "device": "machine code",
        "driver": "none",
        "cuda": "none",
        "compiler": tools.name,
        "tcprobe": __version__,
        "ptx": ptx_hash([kernel(instruction)]),
    }
    if isinstance(outcome, str):
        return Measurement(instruction.id, arch.name, method, "failed", about, words=outcome)
    return Measurement(instruction.id, arch.name, method, "measured", about, **outcome)


def conclude_forms(
    code_by_form: Mapping[Instruction, Code], arch: Arch, derived: Findings, alone: Mapping[str, str]
) -> FormOutcomes:
    """What the code of mma.sync forms shows besides `derived`; `alone` has the opcode of forms that are just one."""
    layouts, outcome = {opcode: a.tables for opcode, a in derived.opcodes.items()}, FormOutcomes()
    for i, code in code_by_form.items():
        try:
            if i.id in derived.contents:
                agree_with_references(i, arch, derived.contents[i.id]["tables"])
            elif i.id not in derived.failed:
                rests = sorted(derived.contested.intersection(tensor_opcodes(code)))
                if rests:
                    outcome.failed[i.id] = f"rests on {', '.join(rests)}, whose layout is contradicted"
                else:
                    outcome.contents[i.id] = by_code(i, code, arch, layouts)
        except UnreadError as error:
            outcome.pending.append(Pending(i, code, alone.get(i.id, ""), str(error)))
        except ContradictedError as error:
            outcome.failed[i.id] = str(error)
            outcome.contradicted.append(i.id)
    return outcome


def _trace(code: Code | None, instruction: Instruction) -> Traced | None:
    """None if the code is not followed: an emulated form, or an opcode that is not modelled."""
    try:
        return trace(code, instruction) if code else None
    except UnreadError:
        return None


def conclude(followed: TracedInstructions, known_table: KnownTable) -> Findings:
    """What follows from the traces of multiplies; those of wmma are first checked against each other."""
    tables = {i.id: {f.operand: table for f in i.fragments if (table := known_table(f))} for i, _ in followed}
    used = {i.id: traced for i, traced in followed if i.definitions and len(tables[i.id]) == len(i.fragments)}
    verdict = Crosscheck([_account(i, used[i.id], tables[i.id]) for i, _ in followed if i.id in used])
    opcodes = anchors(verdict.agreeing)
    contested = frozenset(step.opcode for id_ in verdict.failed for step in used[id_].steps) - set(opcodes)
    contents, failed = {}, dict(verdict.failed)
    for i, traced in followed:
        opcode = _alone(i, traced) if i.family == "mma" else None
        if i.id in used and i.id not in failed:
            contents[i.id] = _measured_content(i, traced, tables[i.id])
        elif opcode in contested:
            failed[i.id] = f"rests on {opcode}, whose layout is contradicted"
        elif opcode in opcodes and (inherited := _inherits(i, opcode, opcodes[opcode])):
            contents[i.id] = inherited
    return Findings(verdict, opcodes, contested, contents, failed)


def _account(instruction: Instruction, traced: Traced, tables: Tables) -> Account:
    try:
        return Account(instruction, stages(instruction, traced, tables))
    except MisfitError as error:
        return Account(instruction, misfit=str(error))


def _measured_content(instruction: Instruction, traced: Traced, tables: Tables) -> Json:
    """The tables, and the elements that no tensor-core instruction of a wmma.mma takes."""
    words_taken = {word for step in traced.steps for word in (*step.a, *step.b)}
    unread = {}
    for fragment in instruction.fragments[:2]:
        per_word = 32 / fragment.slot_bits
        missing = [i for i in range(fragment.elements) if Word(fragment.operand, int(i / per_word)) not in words_taken]
        if missing:
            unread[fragment.operand] = (tuple(missing),) * fragment.threads
    return {"tables": tables, "numbering": MEMORY, "unread": unread}


def anchors(accounts: Iterable[Account]) -> dict[str, Anchored]:
    """The layout of every tensor-core opcode in wmma multiplies that agree.

    Transposed products are left out: they show it with the operands exchanged. If a warp has several products, their
    lanes tell them apart; a fragment without copies leaves no other lanes.
    """
    anchored: dict[str, Anchored] = {}
    for account in accounts:
        for stage in account.stages:
            before = anchored.get(stage.opcode)
            if not stage.turned and "d" in stage.pieces and len(stage.pieces) > (len(before.tables) if before else 0):
                tables = {role: _table(piece, stage) for role, piece in stage.pieces.items()}
                anchored[stage.opcode] = Anchored(tables, account.instruction.id)
    return anchored


def _table(piece: Piece, stage: Stage) -> Table:
    """An operand's layout in an opcode: row, col and product."""
    shape, elements = form(stage.opcode), piece.layout.shape[2]
    values = {name: tuple(piece.layout[j].reshape(-1).tolist()) for j, name in enumerate(("row", "col"))}
    if shape.products > 1:
        values["product"] = tuple(shape.product(lane) for lane in range(WARP) for _ in range(elements))
    return slot_table(WARP, elements, values)


def _alone(instruction: Instruction, traced: Traced) -> str:
    """The opcode of an mma.sync form that is just one, with registers in order and of its types; "" if it is not."""
    step = traced.steps[0]
    shape = form(step.opcode)
    words_by_operand = {"a": step.a, "b": step.b, "c": tuple(dict.fromkeys(step.c))}
    counts = {"a": shape.a, "b": shape.b, "c": shape.c}
    in_order = all(words == tuple(Word(o, j) for j in range(counts[o])) for o, words in words_by_operand.items())
    if len(traced.steps) > 1 or not in_order or traced.stored != tuple(Word("d", j) for j in range(shape.d)):
        return ""
    fits = (shape.m, shape.n, shape.k, shape.products) == (*instruction.shape, instruction.products)
    return step.opcode if fits and computes(step.opcode, instruction, turned=False) else ""


def _inherits(instruction: Instruction, opcode: str, anchored: Anchored) -> Json | None:
    """Tables and numbering of an mma.sync form that is one opcode of known layout; None if their sizes differ."""
    fits = all(
        f.operand in anchored.tables and anchored.tables[f.operand].elements == f.elements
        for f in instruction.fragments
    )
    numbering = f"memory addresses, through {opcode} of {anchored.source}"
    return {"tables": anchored.tables, "numbering": numbering} if fits else None
