"""All instructions and fragments: the forms of each file of `tcprobe.isa.rows`, made when somebody asks for them.

>>> from tcprobe.isa import inventory
>>> inventory.fragment("wmma.m16n16k16.a.row.bf16").elements
8
>>> len(inventory.of_family("wmma"))
96
>>> from tcprobe.isa.rows.wgmma import INSTRUCTIONS
>>> "wgmma.mma_async.m64n24k16.f32.f16.f16" in INSTRUCTIONS, len(INSTRUCTIONS)
(True, 930)

A family of hundreds of forms costs nothing but their names as long as nobody asks for it, and others nothing at all.
What a name means of it is in `names`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from types import MappingProxyType

from tcprobe.isa.arch import WARP, version
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import WHOLE, WRITTEN
from tcprobe.plugins import discover

EVERYWHERE = ".sync.aligned"  # what the name of every form has, and no id
Makers = Mapping[str, Callable[[], Instruction]]


class Forms(Mapping[str, Instruction]):
    """Instructions of some `families`, which `threads` execute together; every id begins with one of `stems`.

    `makers` says by id how each is made. Where there is an `opcode`, only a name that says it means one of them.
    """

    def __init__(
        self,
        families: tuple[str, ...],
        stems: tuple[str, ...],
        makers: Callable[[], Makers],
        threads: int = WARP,
        opcode: str | None = None,
    ) -> None:
        self.families, self.threads, self._opcode = families, threads, opcode
        self.stems, self._state = stems, makers
        self._made: dict[str, Instruction] = {}

    @cached_property
    def _makers(self) -> Makers:
        return self._state()

    @property
    def made(self) -> int:
        """How many were asked for."""
        return len(self._made)

    @cached_property
    def fragments(self) -> Mapping[str, Fragment]:
        """All their fragments by id. One that several of them share has the least of their targets."""
        by_id: dict[str, Fragment] = {}
        for row in self.values():
            for fragment in row.fragments:
                known = by_id.setdefault(fragment.id, fragment)
                if version(fragment.target.ptx) < version(known.target.ptx):
                    by_id[fragment.id] = fragment
        return MappingProxyType(by_id)

    def begins(self, id_: str) -> bool:
        """Whether an id begins as theirs do."""
        return id_.startswith(self.stems)

    def meant_by(self, pattern: str) -> bool:
        """Whether a name, a shortened one or one with * and ? can mean one of them: it must say the opcode."""
        if self._opcode is None:
            return True
        stem = pattern.split("*", maxsplit=1)[0].split("?", maxsplit=1)[0].split("[", maxsplit=1)[0]
        if stem != pattern:
            return f"{self._opcode}.".startswith(stem) or stem.startswith(f"{self._opcode}.")
        return self._opcode in pattern.split(".")

    def unlisted(self, id_: str) -> Instruction | None:
        """A form that has an id but is not listed, because a listed one represents it; None if there is none."""
        return None

    def measured_by(self, by_experiment: Mapping[str, Sequence[str]]) -> Iterable[str]:
        """Ids of the fragments that are those operands of experiments, in the order of the forms; no form is made."""
        own = ((id_, by_experiment[id_]) for id_ in self if id_ in by_experiment)
        return (f"{id_}.{operand}" for id_, named in own for operand in sorted(named, key=_written_at))

    def __getitem__(self, id_: str) -> Instruction:
        if id_ in self._made:
            return self._made[id_]
        made = self._makers[id_]() if id_ in self._makers else self.unlisted(id_) if self.begins(id_) else None
        if made is None:
            raise KeyError(id_)
        self._made[id_] = made
        return made

    def __contains__(self, id_: object) -> bool:
        if not (isinstance(id_, str) and self.begins(id_)):
            return False
        return id_ in self._makers or self.unlisted(id_) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def _written_at(operand: str) -> tuple[int, str]:
    """Where PTX writes an operand of a multiply: d first; others after a, b and c, by name."""
    return (WRITTEN.index(operand) if operand in WRITTEN else len(WRITTEN), operand)


def one_by_one(forms: Callable[[], Iterable[tuple[str, Callable[[], Instruction]]]]) -> Callable[[], Makers]:
    """Makers of forms by their PTX names, which have .sync.aligned; each is made when it is asked for."""
    return lambda: {name.replace(EVERYWHERE, ""): maker for name, maker in forms()}


def all_at_once(make_rows: Callable[[], Iterable[Instruction]]) -> Callable[[], Makers]:
    """Makers of forms that are all made when the first of them is asked for."""
    return lambda: {row.id: lambda row=row: row for row in make_rows()}  # type: ignore[misc]


class Together(Mapping[str, Instruction]):
    """Several mappings as one; an id is in one of them."""

    def __init__(self, *parts: Forms) -> None:
        self.parts = parts

    def __getitem__(self, id_: str) -> Instruction:
        for part in self.parts:
            if id_ in part:
                return part[id_]
        raise KeyError(id_)

    def __contains__(self, id_: object) -> bool:
        return any(id_ in part for part in self.parts)

    def __iter__(self) -> Iterator[str]:
        return (id_ for part in self.parts for id_ in part)

    def __len__(self) -> int:
        return sum(map(len, self.parts))


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
