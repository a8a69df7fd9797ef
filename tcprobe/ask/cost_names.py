"""Which measured costs a name means: by a name, a shortened one, a pattern, an opcode, or words in any order."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from tcprobe.errors import UsageError
from tcprobe.isa import arch, inventory, names
from tcprobe.isa.instruction import IMPLIED
from tcprobe.isa.names import search
from tcprobe.isa.names.words import read
from tcprobe.isa.shared_memory import accesses, exchanges_and_copies
from tcprobe.references.cost import peak_row
from tcprobe.references.cost import rows as stated_costs
from tcprobe.store.kinds.cost import FULL_LOAD
from tcprobe.text import quoted

if TYPE_CHECKING:
    from tcprobe.isa.target import Target
    from tcprobe.store.choose import Layers
    from tcprobe.store.finding import Sourced

KIND = "cost"


def archs(layers: Layers) -> list[str]:
    """Archs with costs, ascending."""
    return [row.name for row in arch.ARCHS if layers.findings(KIND, row.name)]


def subjects(pattern: str, place: str, costs: dict[str, Sourced], layers: Layers) -> list[str]:
    """Subjects, measured, else stated, that a name, a pattern, words or an opcode mean; UsageError where none is."""
    if not search.short(pattern).startswith(FULL_LOAD):  # clocks under load are of the same instructions
        costs = {id_: sourced for id_, sourced in costs.items() if not id_.startswith(FULL_LOAD)}
    ids = _by_name(pattern, costs) or _by_opcode(pattern, costs) or _by_words(pattern, costs)
    if not ids:
        stated = stated_on(place, layers)
        ids = _by_name(pattern, stated) or _by_words(pattern, stated)
    if not ids:
        raise _no_cost(pattern, place, layers)
    return ids


def stated_on(place: str, layers: Layers) -> list[str]:
    """What the arch has and of which others state a cost there; nothing where only a folder is asked."""
    if not layers.with_published:
        return []
    device, rows = arch.arch(place), inventory.instructions()
    targets = {**exchanges_and_copies(), **{name: access.target for name, access in accesses().items()}}
    targets |= {id_: row.target for id_, row in rows.items()}
    patterns = [row.forms for row in stated_costs() if row.arch == place]
    return [
        id_
        for id_, target in targets.items()
        if target.on(device)
        and (peak_row(rows.get(id_), place) or any(fnmatch.fnmatchcase(id_, pattern) for pattern in patterns))
    ]


def _by_name(pattern: str, ids: Iterable[str]) -> list[str]:
    """Subjects by their name, a shortened one or a pattern."""
    name, subjects_ = search.short(pattern), list(ids)
    return [name] if name in subjects_ else search.matching(name, subjects_)


def _by_opcode(opcode: str, costs: dict[str, Sourced]) -> list[str]:
    """Subjects that become an opcode, or one that begins so: HMMA.16816.F32, or HMMA."""
    mnemonic = opcode.upper()
    exact = [id_ for id_, sourced in costs.items() if mnemonic in sourced.finding.body.opcodes]
    return exact or [
        id_ for id_, sourced in costs.items() if any(o.startswith(f"{mnemonic}.") for o in sourced.finding.body.opcodes)
    ]


def _by_words(text: str, ids: Iterable[str]) -> list[str]:
    """Subjects by words in any order: of rows as in every command, of other moves by the parts of their names."""
    rows = {row.id for row in names.resolve(text).instructions}
    reading = read(text)
    if not reading.words and not IMPLIED.isdisjoint(search.short(text).split(".")):
        return []  # a dotted name in another order than PTX's
    return [id_ for id_ in ids if id_ in rows] or [id_ for id_ in ids if reading.fits(id_.split("."), _omissions(id_))]


def _omissions(id_: str) -> list[str]:
    """What people leave out of parts of a name: 128 of ld.shared.b128, f16 of kind::f16."""
    parts = id_.split(".")
    sizes = [part[1:] for part in parts if part[0] == "b" and part[1:].isdigit()]
    return sizes + [part.rpartition("::")[2] for part in parts if "::" in part]


def _no_cost(pattern: str, place: str, layers: Layers) -> UsageError:
    """Why there is no cost: nobody ran its loops, which may be of another GPU; or there are none."""
    from tcprobe.probes import dialogues

    nowhere = f"no cost of {quoted(pattern)} is measured on {place} in {layers.words}"
    others = {name: layers.findings(KIND, name) for name in archs(layers) if name != place}
    if there := [name for name, theirs in others.items() if _by_name(pattern, theirs) or _by_opcode(pattern, theirs)]:
        return UsageError(f"{nowhere}; it is on {', '.join(there)}.", "no cost")
    loops = dialogues(KIND)
    begun = [id_ for id_ in loops if id_.startswith(f"{search.short(pattern)}.")]
    loop_ids = _by_name(pattern, loops) or begun or _by_words(pattern, loops)
    if not loop_ids:
        return UsageError(
            f"tcprobe has no cost loop for {quoted(pattern)}. It times multiplies, matrix moves, loads and stores of "
            "shared memory, cp.async, bulk and tensor copies, and shfl. Name one of these, or an opcode."
        )
    why = _not_run_words({id_: loops[id_].target for id_ in loop_ids}, [arch.arch(name) for name in archs(layers)])
    return UsageError(f"{nowhere}{why}.", "no cost")


def _not_run_words(targets: Mapping[str, Target], devices: Sequence[arch.Arch]) -> str:
    """Which loops nobody ran, since no arch with costs runs their target; "" if there are none."""
    left = [id_ for id_, target in targets.items() if not any(map(target.on, devices))]
    if not left:
        return ""
    more = f" and {len(left) - 1} more" if len(left) > 1 else ""
    return f"; its timing loops assemble for {targets[left[0]].name}, but were never run: {left[0]}{more}"
