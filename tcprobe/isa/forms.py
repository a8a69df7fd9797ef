"""Forms: the instructions of one opcode by id, each made when somebody asks for it.

>>> from tcprobe.isa.rows.wgmma import INSTRUCTIONS
>>> "wgmma.mma_async.m64n24k16.f32.f16.f16" in INSTRUCTIONS, len(INSTRUCTIONS)
(True, 930)

A family of hundreds of forms costs nothing but their names as long as nobody asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from tcprobe.isa.instruction import Instruction

Makers = Mapping[str, Callable[[], Instruction]]


class Forms(Mapping[str, Instruction]):
    """Instructions that `threads` execute together; all ids begin with `opcode` and a dot. `names` gives the makers."""

    def __init__(self, opcode: str, threads: int, names: Callable[[], Makers]) -> None:
        self.opcode, self.threads, self._names = opcode, threads, names
        self._made: dict[str, Instruction] = {}

    @cached_property
    def _makers(self) -> Makers:
        return self._names()

    @property
    def made(self) -> int:
        """How many were asked for."""
        return len(self._made)

    def meant_by(self, pattern: str) -> bool:
        """Whether a name, a shortened one or one with * and ? can mean one of them: it must say the opcode."""
        stem = pattern.split("*", maxsplit=1)[0].split("?", maxsplit=1)[0].split("[", maxsplit=1)[0]
        if stem != pattern:
            return f"{self.opcode}.".startswith(stem) or stem.startswith(f"{self.opcode}.")
        return self.opcode in pattern.split(".")

    def __getitem__(self, id_: str) -> Instruction:
        if not id_.startswith(f"{self.opcode}."):
            raise KeyError(id_)
        if id_ not in self._made:
            self._made[id_] = self._makers[id_]()
        return self._made[id_]

    def __contains__(self, id_: object) -> bool:
        return isinstance(id_, str) and id_.startswith(f"{self.opcode}.") and id_ in self._makers

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


class Together(Mapping[str, Instruction]):
    """Several mappings as one; an id is in one of them."""

    def __init__(self, *parts: Mapping[str, Instruction]) -> None:
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
