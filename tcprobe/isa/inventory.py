"""All instructions and fragments, gathered from the files of `tcprobe.isa.rows`.

>>> from tcprobe.isa import inventory
>>> inventory.fragment("wmma.m16n16k16.a.row.bf16").elements
8
>>> len(inventory.of_family("wmma"))
96

What a name means of it is in `names`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType

from tcprobe.isa.arch import WARP
from tcprobe.isa.forms import Forms, Together
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import WHOLE
from tcprobe.plugins import discover

ROWS = "tcprobe.isa.rows"
_SHAPE = re.compile(r"\bm[0-9]+n[0-9]+k[0-9]+\b")


@cache
def instructions() -> Together:
    """All instructions by id, in the order of the rows, wmma first, those of more than a warp last."""
    files = [module.INSTRUCTIONS for module in discover(ROWS, ("INSTRUCTIONS",)).values()]
    return Together(*sorted(files, key=lambda forms: (forms.threads, "wmma" not in forms.families)))


def families() -> tuple[str, ...]:
    """Names of all families of instructions."""
    return tuple(family for forms in instructions().parts for family in forms.families)


def of_family(*names: str) -> list[Instruction]:
    """The instructions of some families, in the order of the rows."""
    parts = (forms for forms in instructions().parts if set(names) & set(forms.families))
    return [row for forms in parts for row in forms.values() if row.family in names]


def executed_by(threads: int) -> list[Instruction]:
    """The instructions that so many threads execute together: a warp, or a warpgroup."""
    return [row for forms in instructions().parts if forms.threads == threads for row in forms.values()]


@cache
def fragments() -> MappingProxyType[str, Fragment]:
    """All fragments by id. One that several instructions share has the least of their targets."""
    return _together(instructions().parts)


@cache
def of_a_warp() -> MappingProxyType[str, Fragment]:
    """`fragments` of what a warp executes."""
    return _together([forms for forms in instructions().parts if forms.threads == WARP])


def _together(groups: Sequence[Forms]) -> MappingProxyType[str, Fragment]:
    return MappingProxyType({id_: fragment for forms in groups for id_, fragment in forms.fragments.items()})


def fragment(id_: str) -> Fragment:
    """The fragment of an id; KeyError if there is none."""
    if row := find(id_):
        return row
    raise KeyError(id_)


def find(id_: str) -> Fragment | None:
    """The fragment of an id, None if there is none. Quick: only what begins like it is made."""
    name, _, operand = id_.rpartition(".")
    row = instructions().get(name)
    own = next((f for f in row.fragments if f.operand == operand), None) if row else None
    if own and not own.shared:
        return own
    return next((forms.fragments[id_] for forms in _beginning(id_) if id_ in forms.fragments), None)


def _beginning(id_: str) -> Iterator[Forms]:
    """The files of rows of a warp whose ids begin as this one."""
    return (forms for forms in instructions().parts if forms.threads == WARP and forms.begins(id_))


def of_experiment(id_: str) -> tuple[Fragment, ...]:
    """The fragments whose tables a measurement of that id holds: the operands of a multiply, or a wmma fragment, with
    c and d together; none where the id is unknown.
    """
    row = instructions().get(id_)
    return row.fragments if row else _fragments_by_move().get(id_, ())


@cache
def _fragments_by_move() -> MappingProxyType[str, tuple[Fragment, ...]]:
    """The wmma fragments by the experiment that loads and stores them."""
    by_experiment: dict[str, tuple[Fragment, ...]] = {}
    for fragment in (f for f in of_a_warp().values() if f.family == "wmma"):
        by_experiment[fragment.experiment] = (*by_experiment.get(fragment.experiment, ()), fragment)
    return MappingProxyType(by_experiment)


def may_hold(fragment: Fragment, experiments: Iterable[str]) -> Iterator[str]:
    """Of some experiments those whose tables may be as that of `fragment`: by their threads, and the shape in the id.

    What a multiply of wmma takes is measured by experiments of its own.
    """
    stems = tuple(stem for forms in instructions().parts if forms.threads == fragment.threads for stem in forms.stems)
    whole, size = fragment.role in WHOLE, (fragment.rows, fragment.cols)
    for experiment in [id_ for id_ in experiments if id_.startswith(stems)]:
        if experiment.startswith("wmma.mma"):
            continue
        shape = _SHAPE.search(experiment) if whole else None
        if shape is None or size in _sizes(shape[0], ".sp" in experiment):
            yield experiment


@cache
def _sizes(shape: str, sparse: bool) -> tuple[tuple[int, int], ...]:
    """Rows and columns of A as it is stored, of B, and of C and D."""
    m, n, k = map(int, re.findall(r"[0-9]+", shape))
    return (m, k // 2 if sparse else k), (k, n), (m, n)


def ids_of(by_experiment: Mapping[str, Sequence[str]]) -> list[str]:
    """Ids of the fragments whose tables are those operands of experiments, of `may_hold`, in the order of the rows."""
    parts = (part for part in instructions().parts if any(map(part.begins, by_experiment)))
    return [id_ for part in parts for id_ in part.measured_by(by_experiment)]


def users(fragment_id: str) -> tuple[str, ...]:
    """Names of the instructions that take the fragment as an operand: only one of wmma is shared by several."""
    return tuple(instructions()[id_].name for id_ in user_ids(fragment_id))


@cache
def user_ids(fragment_id: str) -> tuple[str, ...]:
    """Ids of the instructions that take the fragment as an operand."""
    row = instructions().get(fragment_id.rpartition(".")[0])
    if row and row.fragments and not row.fragments[0].shared:
        return (row.id,)
    sharing = (i for forms in _beginning(fragment_id) for i in forms.values() if i.definitions)
    return tuple(i.id for i in sharing if any(f.id == fragment_id for f in i.fragments))


def nameable(name: str) -> Mapping[str, Fragment]:
    """All fragments that a name can mean."""
    return fragments() if all(forms.meant_by(name) for forms in instructions().parts) else of_a_warp()
