"""The arithmetic of two archs compared, parameter by parameter, of all forms that both have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tcprobe.arithmetic.parameters import forms_alike
from tcprobe.ask.numerics import FACTS, FormNumerics, find
from tcprobe.errors import UsageError
from tcprobe.isa.arch import arch
from tcprobe.store.choose import Layers
from tcprobe.values import Json

COMPARED = tuple(name for name in (*FACTS, "emulated") if name != "alignment")


class ChangedNumerics(NamedTuple):
    """A form, what is known on both archs, and the parameters that differ where both are known."""

    id: str
    answers: tuple[FormNumerics, FormNumerics]
    parameters: dict[str, tuple[Any, Any]]

    def to_json(self) -> Json:
        """Plain data."""
        sides = {"archs": [side.arch for side in self.answers], "status": [side.status for side in self.answers]}
        differs = {name: list(pair) for name, pair in self.parameters.items()}
        return {"id": self.id, **sides, "differs": differs, "evidence": [answer.evidence for answer in self.answers]}

    def __str__(self) -> str:
        listed = [f"{name} {first} -> {second}" for name, (first, second) in self.parameters.items()]
        marks = ", ".join(f"{answer.arch} {answer.status}" for answer in self.answers)
        return f"{self.id} ({marks}): {'; '.join(listed) or 'the same, as far as both are known'}"


def differences(names: tuple[str, ...], layers: Layers) -> Iterator[ChangedNumerics]:
    """Each arithmetic that is measured or published on both archs; UsageError if there is none, or not two archs."""
    if len(names) != 2:
        raise UsageError("the comparison of arithmetic needs two archs.", "two archs")
    first, second = (arch(name) for name in names)
    compared = False
    for rows in forms_alike().values():
        ours, theirs = find(rows[0], first, layers), find(rows[0], second, layers)
        if ours is None or theirs is None:  # one of them does not have it, or nothing is known there
            continue
        pair, compared = (ours, theirs), True
        left, right = (side.to_json() for side in pair)
        parameters = {
            name: (left[name], right[name])
            for name in COMPARED
            if left[name] != right[name] and None not in (left[name], right[name])
        }
        yield ChangedNumerics(rows[0].id, pair, parameters)
    if not compared:
        raise UsageError(f"no instruction has a known arithmetic on both {first.name} and {second.name}.")
