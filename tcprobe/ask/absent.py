"""Why an arch has no table of a fragment: it lacks the fragment, refused it, failed at it, or nobody measured it.

Absent is not different: what is not measured may well be the same, and where a reference says so it is told.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tcprobe.ask import cost
from tcprobe.isa import arch, by_name, inventory
from tcprobe.isa.arch import Arch
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction, SharedOperand
from tcprobe.layout.table import Table
from tcprobe.references import documented
from tcprobe.store.cell import of
from tcprobe.store.choose import Found, Layers, whence


def reason(fragment: Fragment, name: str, layers: Layers, elsewhere: Table | None = None) -> str:
    """Why there is no table of a fragment on arch `name`; `elsewhere` is one to compare what is documented with."""
    if not fragment.target.on(arch.arch(name)):
        return f"{name} does not have it: needs {' or '.join(target for target, _ in fragment.target.options)}"
    saved = next(layers.saved(fragment.experiment, [name]), None)
    if saved and saved.measured.status != "measured":
        return _recorded(saved)
    partly = f": what was measured of {fragment.instruction} does not show it" if saved else ""
    return f"not measured on {name} in {layers.words}{partly} ({_stated(fragment, name, elsewhere)})"


def _recorded(saved: Found) -> str:
    """What a measurement without a table says, and where it is."""
    return f"{saved.measured.status}: {saved.measured.words} ({saved.measured.method}, {whence(saved.source)})"


def _stated(fragment: Fragment, name: str, elsewhere: Table | None) -> str:
    stated = documented(fragment, arch.arch(name))
    if stated is None:
        return "nor documented"
    reference, claim = stated
    layout = "" if elsewhere is None else f": {'the same' if claim.meant == elsewhere else 'another'} layout"
    return f"documented by {reference}, {claim.where}{layout}"


def _remedy(fragment: Fragment, row: Arch) -> str:
    """What makes a table: machine code shows a fragment that has a load or store of its own; a GPU what has a probe."""
    form = inventory.instructions().get(fragment.experiment)
    if form and form.unprobed:
        return form.unprobed
    if fragment.shared:
        return f"`tcprobe run --arch {row.name}` measures it"
    return f"`tcprobe run` on a GPU of {row.name} measures it; machine code shows only what follows from wmma"


@dataclass(frozen=True)
class WhyNot:
    """Whether an arch is allowed to have a fragment, whether it is measured there, and all that in words.

    `source` is where its measurement is, or where none was found.
    """

    id: str
    arch: str
    allowed: bool
    measured: bool
    words: str
    source: str

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def why_not(fragment: Fragment, row: Arch, layers: Layers) -> WhyNot:
    """Why an arch does not have a fragment, or no table of it."""
    forbidden, chosen = by_name.why_not(fragment, row), layers.choose(fragment, [row.name])
    saved = chosen or next(layers.saved(fragment.experiment, [row.name]), None)
    if forbidden:
        words = f"{forbidden} {_recorded(saved) if saved else f'Nothing is saved of it in {layers.words}.'}"
    else:
        allowed = f"nothing is in the way: {fragment.instruction} is allowed on {row.name}"
        words = f"{allowed}; {of(fragment, chosen, layers).evidence if chosen else reason(fragment, row.name, layers)}"
        words += "" if saved else f"; {_remedy(fragment, row)}"
        measured = cost.of(fragment.experiment, row.name, layers)
        words += f"; it costs: {cost.short(measured)}" if measured else ""
    source = saved.source if saved else layers.names
    return WhyNot(fragment.id, row.name, not forbidden, chosen is not None, words, source)


def why_not_behind(one: SharedOperand, row: Arch, layers: Layers) -> WhyNot:
    """The same of an operand in shared memory."""
    from tcprobe.ask.behind import behind

    forbidden = by_name.why_not(one.instruction, row)
    words = forbidden or f"nothing is in the way: {row.name} has {one.id}; `tcprobe show` says where its elements are."
    measured = not forbidden and behind(one, layers).measured is not None
    return WhyNot(one.id, row.name, not forbidden, measured, words, layers.names)


def why_not_form(form: Instruction, row: Arch, layers: Layers) -> WhyNot:
    """The same of an instruction that holds nothing in registers."""
    forbidden = by_name.why_not(form, row)
    places = ", ".join(f"{operand.name} is in {operand.place.value}" for operand in form.elsewhere)
    allowed = f"nothing is in the way: {form.name} is allowed on {row.name}; but {places}"
    words = forbidden or f"{allowed}, so there is no table of registers, and {form.unprobed}."
    return WhyNot(form.id, row.name, not forbidden, False, words, layers.names)
