"""Crafted and damaged files below a results folder, and every command that reads one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import board, crafted, nodes, reading, saved
from .board import Case, Fault, Judge, Outcome
from .nodes import Change
from .saved import LOAD, MMA

CATEGORY = "files"
LAYOUT = f"layouts/{saved.layout_id(saved.healthy_table(MMA, 'a'))}.json"
PLACES = (saved.file_of(MMA), LAYOUT, "sm_90/opcodes.json", "sm_90/lowering.json")
FOLDERS = ("sm_90/live", "sm_90", "layouts")


def cases(thorough: bool = False) -> Iterator[Case]:
    """All of them: a hundred with all commands, the others with fewer, unless `thorough`."""
    for number, case in enumerate(_inputs()):
        yield case if thorough or number % 7 in (0, 3) else replace(case, trials=reading.fewer(case.trials))


def _inputs() -> Iterator[Case]:
    yield Case(CATEGORY, "control: the healthy folder", saved.healthy, reading.trials(reading.MMA, _control))
    yield Case(
        CATEGORY,
        "possible: another load",
        _layout(LOAD, "a", crafted.permuted),
        reading.trials(reading.LOAD, reading.possible),
    )
    for name, experiment, edit in crafted.MEASUREMENTS:
        yield _case(name, saved.file_of(experiment), _edited(edit), reading.TARGETS[experiment])
    for name, experiment, operands, edit in crafted.LAYOUTS:
        yield _layout_case(name, experiment, operands, edit)
    for name, edit in crafted.OPCODES:
        yield _case(name, "sm_90/opcodes.json", _edited(edit))
    for name, edit in crafted.LOWERINGS:
        yield _case(name, "sm_90/lowering.json", _edited(edit))
    for name, change in crafted.TEXTS:
        yield _case(name, saved.file_of(MMA), _resealed(change))
    yield from _damaged()
    if board.rights_can_go():
        yield from (_unreadable(place) for place in (*PLACES, *FOLDERS))


def _damaged() -> Iterator[Case]:
    """Bytes and kinds of file: all in the place of a measurement, some in that of the other files."""
    for place in PLACES:
        few = place != PLACES[0]
        for name, change in crafted.BYTES[::3] if few else crafted.BYTES:
            yield _case(f"{place.split('/')[-2]}: {name}", place, _rewritten(change))
        for name, make in nodes.NODES[:5] if few else nodes.NODES:
            yield _case(f"{place.split('/')[-2]}: {name}", place, make)
    for place in FOLDERS:
        for name, make in nodes.NODES[:4]:
            yield _case(f"{place}: {name}", place, make)
    yield _case("layout: another under its name", LAYOUT, lambda path: path.write_bytes(_layout_of_b()))


def _layout_of_b() -> bytes:
    return saved.healthy_files()[f"layouts/{saved.layout_id(saved.healthy_table(MMA, 'b'))}.json"]


def _case(name: str, damaged: str, change: Change, target: reading.Target = reading.MMA) -> Case:
    def make(folder: Path) -> None:
        change(saved.healthy(folder) / damaged)

    return Case(CATEGORY, name, make, reading.trials(target, _refusing(damaged)))


def _layout_case(name: str, experiment: str, operands: str, edit: crafted.Edit) -> Case:
    table = saved.healthy_table(experiment, operands[0])
    edit(table)
    judge = _refusing(saved.file_of(experiment), saved.layout_id(table))
    target = reading.TARGETS[experiment]
    return Case(CATEGORY, f"layout: {name}", _layout(experiment, operands, edit), reading.trials(target, judge))


def _refusing(damaged: str, words: str = "") -> Callable[[tuple[str, ...]], Judge]:
    return lambda argv: reading.refuses(argv, damaged, words)


def _layout(experiment: str, operands: str, edit: crafted.Edit) -> Change:
    def make(folder: Path) -> None:
        table = saved.healthy_table(experiment, operands[0])
        edit(table)
        saved.put_layout(saved.healthy(folder), table, experiment, operands)

    return make


def _edited(edit: crafted.Edit) -> Change:
    def change(path: Path) -> None:
        body = saved.body_of(path)
        edit(body)
        path.write_bytes(saved.sealed(body))

    return change


def _resealed(change_text: Callable[[str], str]) -> Change:
    return lambda path: path.write_bytes(saved.seal(change_text(saved.plain(saved.body_of(path)))))


def _rewritten(change_bytes: Callable[[bytes], bytes]) -> Change:
    return lambda path: path.write_bytes(change_bytes(path.read_bytes()))


def _unreadable(place: str) -> Case:
    """As nobody: root can read anything."""
    case = _case(f"{place}: unreadable", place, lambda path: path.chmod(0))
    readers = [trial for trial in case.trials if trial.argv[0] != "pages"]
    return replace(case, trials=tuple(replace(trial, nobody=True) for trial in readers))


def _control(argv: tuple[str, ...]) -> Judge:
    """The healthy folder answers; the answer is the published one and says where it comes from."""

    def judge(outcome: Outcome, folder: Path) -> Iterator[Fault]:
        if outcome.code not in (0, 1) or not outcome.out.strip():
            yield Fault(
                "wrong", "the healthy folder has no answer", f"exit {outcome.code}, {board.last_line(outcome.err)}"
            )
        elif argv[0] in ("show", "where", "trace", "convert", "compare"):
            yield from reading.origin(outcome)
        if argv[0] == "show" and "--json" in argv and outcome.code == 0:
            yield from _truth(outcome.out)

    return judge


def _truth(text: str) -> Iterator[Fault]:
    measured: dict[str, Any] = saved.healthy_table(MMA, "a")
    if reading.table_of(text) != {name: measured[name] for name in ("row", "col")}:
        yield Fault("wrong", "the healthy folder's table is not what show --json says")
