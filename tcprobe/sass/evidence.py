"""What the code of an mma.sync form shows if it is not a single opcode whose layout its arch shows.

The code is run on random whole numbers; each tensor-core opcode in it computes by the layout that anchors it. If D is
the product under the layouts that a reference states, the form has these layouts. If it is so for no reference, code
and references contradict each other. Code that is not followed exactly shows nothing; the reason is kept.

A form may also rest on another arch: a tensor-core opcode with the same encoding, whose layout is known there.
nvdisasm's names vary by arch (DMMA.884 and DMMA.8x8x4 are one instruction), but bits do not: on all archs from sm_70 to
sm_121 an opcode has one encoding, its 128 bits without registers, guard and scheduling (sm_88 and sm_110 with ptxas
13.0, all others with 12.9). This is weaker than what an arch shows itself: it assumes that an encoding has one layout
on all archs. A layout is known if it was measured live through an mma form that is the opcode alone, or is anchored
through wmma. If two archs have different layouts for an encoding, neither counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tcprobe.isa.arch import ARCHS, Arch
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import MATRICES
from tcprobe.layout.arrays import Ints
from tcprobe.layout.structure import holder
from tcprobe.layout.table import Tables
from tcprobe.references import Claim, claim_of, references
from tcprobe.sass.cubin import Code
from tcprobe.sass.decode import UnreadError
from tcprobe.sass.tensor_product import Layouts, is_tensor, misfit, opcode_of, predicted_d, run_multiply, trials
from tcprobe.store.choose import Layers
from tcprobe.store.finding import MEMORY
from tcprobe.store.kinds import encodings as saved
from tcprobe.values import Json

WIDTH, LINE_BYTES = 128, 16
REGISTERS = sum(0xFF << first for first in (16, 24, 32, 64))  # D, A, B and C
GUARD = 0xF << 12
SCHEDULING = (1 << WIDTH) - (1 << 105)  # stalls, barriers, reuse of operands
OPCODE = (1 << WIDTH) - 1 - (REGISTERS | GUARD | SCHEDULING)


class Encoded(NamedTuple):
    """The bits of an opcode in hexadecimal, one text for each step, and the mma forms that are this opcode alone."""

    bits: tuple[str, ...]
    forms: tuple[str, ...]


def encodings(codes: Iterable[Code], alone: Mapping[str, str]) -> dict[str, Encoded]:
    """The encoding of every tensor-core opcode by full name; `alone` has the opcode of forms that are just one."""
    encoded: dict[str, set[str]] = {}
    for code in {id(code): code for code in codes}.values():
        for opcode, bits in _lines(code):
            encoded.setdefault(opcode, set()).add(bits)
    forms = {opcode: tuple(sorted(i for i, o in alone.items() if o == opcode)) for opcode in encoded}
    return {opcode: Encoded(tuple(sorted(bits)), forms[opcode]) for opcode, bits in sorted(encoded.items())}


def _lines(code: Code) -> Iterable[tuple[str, str]]:
    """(full name, bits) of each tensor-core instruction whose operands are known."""
    for address, step in code.instructions.items():
        if is_tensor(step):
            start = address - code.start
            word = int.from_bytes(code.raw[start : start + LINE_BYTES], "little")
            try:
                yield opcode_of(step), f"{word & OPCODE:x}"
            except UnreadError:
                continue


ARITHMETIC = "by the code's own arithmetic"
_TRIPLES: dict[tuple[str, ...], Ints] = {}


class ContradictedError(Exception):
    """Code or layouts differ from what the references state; the message says how."""


@dataclass(frozen=True)
class Pending:
    """A form that cannot be concluded from its arch alone, and why (`words`).

    `opcode`: the form's opcode, "" unless it is just one, with registers in order.
    """

    instruction: Instruction
    code: Code
    opcode: str
    words: str


def tensor_opcodes(code: Code) -> tuple[str, ...]:
    """The tensor-core opcodes of a kernel, each once; UnreadError if one is not modelled."""
    if code.unread:
        raise UnreadError(next(iter(code.unread.values())))
    return tuple(dict.fromkeys(opcode_of(step) for step in code.instructions.values() if is_tensor(step)))


def by_code(instruction: Instruction, code: Code, arch: Arch, layouts: Layouts) -> Json:
    """Tables and numbering of a form, from its code.

    UnreadError if the code is not followed, ContradictedError if D is the product under no reference's layouts.
    """
    opcodes = tensor_opcodes(code)
    unknown = [opcode for opcode in opcodes if opcode not in layouts]
    if unknown:
        raise UnreadError(f"no layout is known of a tensor-core opcode: {', '.join(unknown)}")
    drawn = trials(instruction)
    try:
        computed = run_multiply(code, instruction, drawn.images, layouts)
    except UnreadError as error:
        raise UnreadError(f"the code is not followed: {error}") from None
    wrong = []
    for name, tables in stated_layouts(instruction, arch):
        words = misfit(instruction.fragment("d"), computed, predicted_d(instruction, drawn.numbers, tables))
        if words is None:
            return {"tables": tables, "numbering": ", ".join((name, " and ".join((ARITHMETIC, *opcodes))))}
        wrong.append(f"{words} by {name}")
    if not wrong:
        raise UnreadError("no reference states its layouts")
    raise ContradictedError(f"its code is not a product under the layouts of the references: {'; '.join(wrong)}")


def stated_layouts(instruction: Instruction, arch: Arch) -> Iterator[tuple[str, Tables]]:
    """(name, tables) of each reference that states the layouts of all operands."""
    for reference in references():
        claims = {f.operand: claim_of(reference, f, arch) for f in instruction.fragments}
        tables = {operand: claim.meant for operand, claim in claims.items() if isinstance(claim, Claim)}
        if len(tables) == len(claims):
            yield reference.NAME, tables


def agree_with_references(instruction: Instruction, arch: Arch, tables: Tables) -> None:
    """ContradictedError if references state layouts, but the same slots meet under none of them."""
    others = list(stated_layouts(instruction, arch))
    if others and not any(same_product(tables, theirs) for _, theirs in others):
        raise ContradictedError(f"other slots meet than by the layouts of {', '.join(name for name, _ in others)}")


def same_product(ours: Tables, theirs: Tables) -> bool:
    """Whether in both the same slots of A and B meet in the same slots of D, and the same C is added."""
    return all(ours[o] == theirs[o] for o in MATRICES) or np.array_equal(_meetings(ours), _meetings(theirs))


def _meetings(tables: Tables) -> Ints:
    """The slots (a, b, c, d) that meet, sorted: (meetings, 4)."""
    key = tuple(tables[operand].id for operand in MATRICES)
    if key not in _TRIPLES:
        sizes = {o: (t.extent.get("product", 1), t.extent["row"], t.extent["col"]) for o, t in tables.items()}
        a, b, c, d = (holder(tables[o], sizes[o]) for o in MATRICES)
        p, m, n, k = np.indices((*sizes["d"], sizes["a"][2])).reshape(4, -1)
        meeting = np.stack([a[p, m, k], b[p, k, n], c[p, m, n], d[p, m, n]], axis=1)
        _TRIPLES[key] = meeting[np.lexsort(meeting.T)]
    return _TRIPLES[key]


EncodedBits = tuple[str, ...]


class Elsewhere(NamedTuple):
    """The layout of an encoding on another arch: its tables, what numbers them, and how it is known there."""

    tables: Tables
    numbering: str
    words: str


class Concluded(NamedTuple):
    """A form's tables and numbering, or why there are none; `contradicted`: that is an error."""

    form: Pending
    contents: Json | None
    words: str = ""
    contradicted: bool = False


def conclude_by_encoding(
    pending: Iterable[Pending], arch: Arch, own: Layouts, encoded: Mapping[str, Encoded], layers: Layers
) -> Iterator[Concluded]:
    """What follows for pending forms of `arch`; `own` are the layouts of its opcodes, `encoded` their encodings."""
    waiting = list(pending)
    if not waiting:
        return
    by_bits, contested = _layouts_elsewhere(layers, arch, {e.bits for o, e in encoded.items() if o not in own})
    others = {o: by_bits[e.bits] for o, e in encoded.items() if o not in own and e.bits in by_bits}
    doubted = {o: contested[e.bits] for o, e in encoded.items() if o not in own and e.bits in contested}
    for form in waiting:
        try:
            rests = [doubted[o] for o in tensor_opcodes(form.code) if o in doubted]
            if rests:
                yield Concluded(form, None, rests[0], contradicted=True)
            else:
                yield Concluded(form, _tables_and_numbering(form, arch, own, others))
        except UnreadError as error:
            yield Concluded(form, None, str(error))
        except ContradictedError as error:
            yield Concluded(form, None, str(error), contradicted=True)


def _tables_and_numbering(pending: Pending, arch: Arch, own: Layouts, others: Mapping[str, Elsewhere]) -> Json:
    """Tables and numbering of a form that is one opcode known elsewhere, or whose code has such opcodes."""
    if pending.opcode in others:
        elsewhere = others[pending.opcode]
        agree_with_references(pending.instruction, arch, elsewhere.tables)
        return {"tables": elsewhere.tables, "numbering": f"{elsewhere.numbering}; {pending.opcode} {elsewhere.words}"}
    layouts = {**own, **{opcode: elsewhere.tables for opcode, elsewhere in others.items()}}
    content = by_code(pending.instruction, pending.code, arch, layouts)
    used = [opcode for opcode in tensor_opcodes(pending.code) if opcode in others]
    words = "; ".join(f"{opcode} {others[opcode].words}" for opcode in used)
    return content | {"numbering": f"{content['numbering']}; {words}"}


def _layouts_elsewhere(
    layers: Layers, arch: Arch, encodings: Set[EncodedBits]
) -> tuple[dict[EncodedBits, Elsewhere], dict[EncodedBits, str]]:
    """(layouts by encoding on other archs, those measured live first; why some encodings have none)."""
    layouts: dict[EncodedBits, Elsewhere] = {}
    contested: dict[EncodedBits, str] = {}
    others = [other.name for other in ARCHS if other != arch]
    for search in (_live_layouts, _anchored_layouts):
        for name in others:
            for bits, layout in search(layers, name, encodings):
                first = layouts.setdefault(bits, layout)
                if not same_product(first.tables, layout.tables):
                    contested[bits] = f"one encoding, two layouts: {first.words}, and {layout.words}"
    return {bits: layout for bits, layout in layouts.items() if bits not in contested}, contested


def _live_layouts(layers: Layers, name: str, encodings: Set[EncodedBits]) -> Iterator[tuple[EncodedBits, Elsewhere]]:
    """Opcodes whose tables were measured on a GPU of the arch, through an mma form that is the opcode alone."""
    words = f"as measured live on {name}, encoded alike"
    for bits, form in ((tuple(d["bits"]), form) for d in _opcodes(layers, name).values() for form in d["forms"]):
        for answer in layers.saved(form, [name], ["live"]) if bits in encodings else ():
            if answer.measured.status == "measured":
                yield bits, Elsewhere(answer.measured.tables, answer.measured.numbering or "", words)


def _anchored_layouts(
    layers: Layers, name: str, encodings: Set[EncodedBits]
) -> Iterator[tuple[EncodedBits, Elsewhere]]:
    """Opcodes whose layouts wmma anchors on the arch."""
    encoded = {o: bits for o, d in _opcodes(layers, name).items() if (bits := tuple(d["bits"])) in encodings}
    for opcode, (layouts, source) in layers.opcodes(name).items() if encoded else ():
        if opcode in encoded and len(layouts) == 4:
            words = f"as anchored on {name} through {source}, encoded alike"
            yield encoded[opcode], Elsewhere(layouts, MEMORY, words)


def _opcodes(layers: Layers, name: str) -> Json:
    """The encodings of an arch from the first layer that has them."""
    nearest = next(layers.documents(name, saved.DOCUMENT, lambda results: saved.read_document(results, name)), None)
    return nearest[0]["opcodes"] if nearest else {}
