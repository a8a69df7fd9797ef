"""Forms: the instructions of one file of rows by id, made when somebody asks for them.

>>> from tcprobe.isa.rows.wgmma import INSTRUCTIONS
>>> "wgmma.mma_async.m64n24k16.f32.f16.f16" in INSTRUCTIONS, len(INSTRUCTIONS)
(True, 930)

A family of hundreds of forms costs nothing but their names as long as nobody asks for it, and others nothing at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

from tcprobe.isa.arch import WARP, version
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import WRITTEN

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
