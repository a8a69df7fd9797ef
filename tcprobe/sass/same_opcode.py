"""Forms that rest on another arch: a tensor-core opcode with the same encoding, whose layout is known there.

This is weaker than what an arch shows itself: it assumes that an encoding has one layout on all archs. A layout is
known if it was measured live through an mma form that is the opcode alone, or is anchored through wmma. If two archs
have different layouts for an encoding, neither counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import NamedTuple

from tcprobe.isa.arch import ARCHS, Arch
from tcprobe.layout.table import Tables
from tcprobe.sass.decode import UnreadError
from tcprobe.sass.encodings import Encoded
from tcprobe.sass.evidence import (
    ContradictedError,
    Pending,
    agree_with_references,
    by_code,
    same_product,
    tensor_opcodes,
)
from tcprobe.sass.tensor_product import Layouts
from tcprobe.store import encodings as saved
from tcprobe.store.choose import Layers
from tcprobe.store.measurement import MEMORY
from tcprobe.values import Json

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


def conclude(
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
    nearest = next(layers.documents(name, saved.KIND, lambda results: saved.read(results, name)), None)
    return nearest[0]["opcodes"] if nearest else {}
