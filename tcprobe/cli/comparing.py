"""`compare`: tables against what others published, and somebody's own table against ours."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from tcprobe.errors import UsageError
from tcprobe.question import wrapping
from tcprobe.question.naming import named
from tcprobe.question.options import ARCHS, JSON, SELECTOR, given, print_notes, read_results

if TYPE_CHECKING:
    from typing import Unpack

    from tcprobe.ask.compare import Repetition, Verdict
    from tcprobe.cli.requests import CompareRequest
    from tcprobe.isa.fragment import Fragment
    from tcprobe.store.choose import Found, Layers


@click.command(short_help="Where tables agree with what others published.")
@click.argument("names", nargs=-1, metavar="[FILE.csv] [FRAGMENT]...")
@SELECTOR
@ARCHS
@click.option("--complete", is_flag=True, help="With FILE: a slot that FILE leaves out counts as a difference.")
@click.option("--cost", "costs", is_flag=True, help="Compare measured costs with what others state, in cycles.")
@read_results
@JSON
@named("names", "list")
def compare(
    names: tuple[str, ...], name: str | None, layers: Layers, as_json: bool, **request: Unpack[CompareRequest]
) -> None:
    """Say where saved tables agree with what others published.

    `compare FILE FRAGMENT` checks your own table of lane,i,row,col (- is standard input). It says what is wrong as a
    whole: transposed, counted from 1, registers or lane bits exchanged, another arch's table. For metadata give the
    --selector. Exit code 1 if something differs that is not a known erratum.
    """
    from tcprobe.store import choose

    if request["costs"]:
        if beside := given("costs", "name", "folder", "only"):
            raise UsageError(f"--cost compares no tables: remove {', '.join(beside.values())}.")
        same = _compare_costs(names, name, layers, as_json)
    elif names and (names[0].endswith((".csv", ".tsv")) or names[0] == "-" or os.path.isfile(names[0])):
        same = _compare_file(names, name, layers, as_json, request)
    elif request["complete"]:
        raise UsageError("--complete needs FILE.csv and its fragment.")
    elif request["selector"] is not None:
        raise UsageError("--selector needs FILE.csv and its fragment; without a file, all selectors are compared.")
    else:
        archs = choose.archs_of(name, layers)
        compared = []
        for arch_name in archs:
            compared.append(_compare_arch(arch_name, names, layers))
            _print(compared[-1], not names, as_json)
        if not any(comparison.tables for comparison in compared):
            where = "" if name in (None, "all") else f" on {archs[0]}"
            measured = f"; measured: {', '.join(layers.archs())}" if layers.archs() else ". `tcprobe run` makes tables"
            raise UsageError(f"none of this is measured{where} in {layers.words}{measured}.")
        same = all(comparison.agrees for comparison in compared)
    sys.exit(0 if same else 1)


def _compare_costs(names: Sequence[str], name: str | None, layers: Layers, as_json: bool) -> bool:
    """Compare costs with what others state; whether all agree."""
    from tcprobe.ask.cost import AGREES, beside, costs

    found = costs(names, name, layers)
    pairs = beside(found)
    if not any(one.status == "measured" for one in found):
        raise UsageError(
            f"no cost of these is measured on {found[0].arch}, to compare with what others state.", "no cost"
        )
    if not pairs:
        raise UsageError("nobody has published these costs for this arch.")
    for pair in pairs:
        verdict = "agrees" if pair.agrees else f"differs by more than {AGREES:.0%}: {pair.why}"
        text = f"{pair.id}: {pair.row.number} {pair.measured:g}, stated {pair.row.comparable:g} on {pair.row.device} "
        if as_json:
            click.echo(json.dumps(pair.to_json()))
        else:
            wrapping.line(f"{text}({pair.row.source}): {verdict}")
    return all(pair.agrees for pair in pairs)


class _ArchComparison(NamedTuple):
    """One arch's tables: how many there are, the verdicts on them, and how far measurements repeat one another."""

    arch: str
    tables: int
    judged: list[tuple[Fragment, Found, Verdict]]
    repeated: list[Repetition]

    @property
    def agrees(self) -> bool:
        """Whether nothing differs that is not a stated erratum."""
        return not any(v.unexplained for _, _, v in self.judged) and all(a.same for a in self.repeated)


def _compare_arch(name: str, patterns: Sequence[str], layers: Layers) -> _ArchComparison:
    from tcprobe.ask.compare import measured_fragments, measurements_agree, verdicts

    measured = list(measured_fragments(layers, name, patterns))
    judged = [(fragment, saved, v) for fragment, saved in measured for v in verdicts(fragment, saved.measured)]
    return _ArchComparison(name, len(measured), judged, list(measurements_agree(layers, name, patterns)))


def _print(compared: _ArchComparison, lists_errata: bool, as_json: bool) -> None:
    """Print the comparison of one arch, and the known errors of the sources if `lists_errata`."""
    from tcprobe.ask.compare import findings
    from tcprobe.references import references

    if as_json:
        for fragment, (m, source, _), v in compared.judged:
            head = {"id": fragment.id, "arch": m.arch, "method": m.method, "source": source}
            click.echo(json.dumps({**head, **v.to_json()}))
    elif compared.tables:
        from tcprobe.cli import printing

        listed = [(r.NAME, where, pattern, words) for r in references() for pattern, where, words in findings(r)]
        printing.comparison(compared.arch, compared.judged, listed if lists_errata else [])
        printing.agreement(compared.repeated)


def _compare_file(
    names: Sequence[str], arch_name: str | None, layers: Layers, as_json: bool, compare_request: CompareRequest
) -> bool:
    """Compare a CSV file with what is measured of a fragment; whether all that it states is so."""
    from tcprobe.ask.compare import against
    from tcprobe.cli import answers
    from tcprobe.layout.csv import read_csv
    from tcprobe.store.cell import no_table, selection
    from tcprobe.store.names import find_cell

    if len(names) < 2:
        raise UsageError(f"`tcprobe compare {names[0]} FRAGMENT` needs a fragment.")
    file_table = read_csv(Path(names[0]))
    measured, note = find_cell(" ".join(names[1:]), arch_name, layers)
    measured, fragment = selection(measured, compare_request["selector"]), measured.fragment
    print_notes(note)
    if not measured.measured:
        raise no_table(fragment, arch_name, layers)
    answer = against(file_table, fragment, measured.table, layers)
    if as_json:
        head = {"file": names[0], "id": fragment.id, "arch": measured.arch, "source": measured.source}
        click.echo(json.dumps({**head, "evidence": measured.evidence, **answer._asdict()}))
    else:
        answers.against(names[0], measured, answer)
    return not answer.first and not (compare_request["complete"] and answer.holes)


COMMANDS = (compare,)
