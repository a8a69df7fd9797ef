"""A reduction as CUDA: a template over the type of an element, for registers unpacked to one value an element."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tcprobe.ask.reduce.plan import Round, Scheme
from tcprobe.ask.reduce.tile import FragmentTile
from tcprobe.code.cuda import DeviceFunction, Parameter, origin

OPS = {"max": "{0} > {1} ? {0} : {1}", "sum": "{0} + {1}"}
JOINS = OPS | {"fmax": "fmax({0}, {1})"}  # of numbers that have a fraction: one instruction


def source(scheme: Scheme, op: str, tile: FragmentTile, name: str) -> str:
    """The function `name`(x, out): out[g] is the result of the row of group g, in every lane that holds it."""
    cell, groups = tile.cell, len(scheme.groups)
    parameters = (
        Parameter(f"const T {tile.parameter}", tile.words),
        Parameter(f"T (&out)[{groups}]", f"{op}s, in every lane that holds elements of them"),
    )
    return str(DeviceFunction(name, parameters, tuple(_body(scheme, op, tile)), cell.fragment.threads, (origin(cell),)))


def _body(scheme: Scheme, op: str, tile: FragmentTile) -> Iterator[str]:
    yield from lane_lines(scheme, op, tile)
    lines, values = exchange_lines(scheme, op, [f"p{part}" for part in range(len(scheme.groups))])
    yield from lines
    yield from (f"out[{part}] = {value};" for part, value in enumerate(values))


def lane_lines(scheme: Scheme, op: str, tile: FragmentTile) -> Iterator[str]:
    """What a lane's own elements come to, in p0, p1, ... by part."""
    for part, group in enumerate(scheme.groups):
        yield f"T p{part} = {tile.place(group[0])};"
        yield from (f"p{part} = {_combined_text(op, f'p{part}', tile.place(i))};" for i in group[1:])


def exchange_lines(scheme: Scheme, op: str, part_values: Sequence[str]) -> tuple[list[str], list[str]]:
    """The rounds and the way back for a value a part, and where every part's result is then."""
    stages, lines = [list(part_values)], []
    for number, round_ in enumerate(scheme.rounds):
        more, after_round = _Stage(round_, f"r{number}_").combine(op, stages[-1])
        lines += more
        stages.append(after_round)
    results = stages[-1]
    for number, round_ in reversed(list(enumerate(scheme.rounds))):
        more, results = _Stage(round_, f"b{number}_").back(results, len(stages[number]))
        lines += more
    return lines, results


def _combined_text(op: str, left: str, right: str) -> str:
    return JOINS[op].format(left, right)


class _Stage(NamedTuple):
    """A round, and how the names of what it receives begin."""

    round: Round
    prefix: str

    def combine(self, op: str, part_values: Sequence[str]) -> tuple[list[str], list[str]]:
        """Send what the partner keeps, join what comes with what is kept."""
        round_, lines, kept = self.round, [], []
        upper = f"lane & {round_.bit}"
        for number in range(round_.words):
            low, high = (round_.keep[0][number], round_.keep[1][number]) if round_.keep[0] else (number, number)
            sent = _either(upper, part_values[round_.matches[high]], part_values[round_.matches[low]])
            own = _either(upper, part_values[low], part_values[high])
            name = f"{self.prefix}{number}"
            lines.append(f"const T {name}t = __shfl_xor_sync(0xffffffffu, {sent}, {round_.lane});")
            lines.append(f"const T {name}k = {own};")
            lines.append(f"const T {name} = {_combined_text(op, f'{name}k', f'{name}t')};")
            kept.append(name)
        return lines, kept

    def back(self, part_values: Sequence[str], count: int) -> tuple[list[str], list[str]]:
        """The parts before a round, from the results that a lane and its partner have after it."""
        round_, prefix = self.round, self.prefix
        if not round_.keep[0]:
            return [], list(part_values)
        lines = [
            f"const T {prefix}{n} = __shfl_xor_sync(0xffffffffu, {value}, {round_.lane});"
            for n, value in enumerate(part_values)
        ]
        low, high = self._places(round_.keep, part_values), self._places(round_.keep[::-1], part_values)
        return lines, [_either(f"lane & {round_.bit}", low[part], high[part]) for part in range(count)]

    def _places(self, keep: Sequence[Sequence[int]], part_values: Sequence[str]) -> dict[int, str]:
        """By part of a lane that keeps keep[0]: its own result, or the one that its partner sends."""
        own = {part: part_values[n] for n, part in enumerate(keep[0])}
        return own | {self.round.matches.index(part): f"{self.prefix}{n}" for n, part in enumerate(keep[1])}


def _either(upper: str, lower: str, high: str) -> str:
    return lower if lower == high else f"({upper} ? {high} : {lower})"
