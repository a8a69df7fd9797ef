"""`compare`: tables against what others published, and somebody's own table against ours."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tcprobe.cli.options import (
    ARCH,
    JSON,
    SELECTOR,
    read_results,
    told,
)
from tcprobe.errors import UsageError

if TYPE_CHECKING:
    from tcprobe.store.choose import Layers


@click.command(short_help="Where tables agree with what others published.")
@click.argument("names", nargs=-1, metavar="[FILE.csv] [FRAGMENT]...")
@SELECTOR
@ARCH
@click.option("--complete", is_flag=True, help="With FILE: a slot that the file leaves out counts as a difference.")
@read_results
@JSON
def compare(names: tuple[str, ...], name: str | None, layers: Layers, as_json: bool, **asked: Any) -> None:
    """Say where saved tables agree with what others published.

    `compare FILE FRAGMENT` checks somebody's own table of lane,i,row,col (- is standard input), and says what is wrong
    with it as a whole: transposed, counted from 1, registers or lane bits exchanged, another arch's table; of metadata
    that of one --selector. Exit code 1 when something differs that is not a stated erratum.
    """
    from tcprobe.store import lookup

    if names and (names[0].endswith((".csv", ".tsv")) or names[0] == "-" or os.path.isfile(names[0])):
        same = _compare_file(names, name, layers, as_json, asked)
    elif asked["selector"] is not None:
        raise UsageError("--selector goes with FILE.csv and its fragment; without a file all selectors are compared.")
    else:
        archs = lookup.archs_of(name, layers)
        compared = [_compare_arch(arch_name, names, layers, as_json) for arch_name in archs]
        if not any(count for count, _ in compared):
            where = "" if name in (None, "all") else f" on {archs[0]}"
            measured = f"; measured: {', '.join(layers.archs())}" if layers.archs() else ". `tcprobe run` makes tables"
            raise UsageError(f"nothing of that is measured{where} in {layers.words}{measured}.")
        same = all(agrees for _, agrees in compared)
    sys.exit(0 if same else 1)


def _compare_arch(name: str, patterns: Sequence[str], layers: Layers, as_json: bool) -> tuple[int, bool]:
    """Compare one arch's tables; how many there are, and whether nothing differs that is not a stated erratum."""
    from tcprobe.ask.compare import findings, measured_fragments, measurements_agree, verdicts
    from tcprobe.references import references

    measured = list(measured_fragments(layers, name, patterns))
    judged = [(fragment, saved, v) for fragment, saved in measured for v in verdicts(fragment, saved.measured)]
    agree = list(measurements_agree(layers, name, patterns))
    if as_json:
        for fragment, (m, source, _), v in judged:
            head = {"id": fragment.id, "arch": m.arch, "method": m.method, "source": source}
            click.echo(json.dumps({**head, **v.to_json()}))
    elif measured:
        from tcprobe.cli import printing

        listed = [(r.NAME, where, pattern, words) for r in references() for pattern, where, words in findings(r)]
        printing.comparison(name, judged, [] if patterns else listed)
        printing.agreement(agree)
    return len(measured), not any(v.unexplained for _, _, v in judged) and all(a.same for a in agree)


def _compare_file(
    names: Sequence[str], arch_name: str | None, layers: Layers, as_json: bool, asked: dict[str, Any]
) -> bool:
    """Compare a CSV file with what is measured of a fragment; whether all that it states is so."""
    from tcprobe.ask.compare import against
    from tcprobe.cli import answers
    from tcprobe.layout.csv import read_csv
    from tcprobe.store import lookup
    from tcprobe.store.cell import selection
    from tcprobe.store.names import meant

    if len(names) < 2:
        raise UsageError(f"`tcprobe compare {names[0]} FRAGMENT` needs a fragment.")
    stated = read_csv(Path(names[0]))
    measured, note = meant(" ".join(names[1:]), arch_name, layers)
    measured, fragment = selection(measured, asked["selector"]), measured.fragment
    told(note)
    if not measured.measured:
        raise lookup.no_table(fragment, arch_name, layers)
    answer = against(stated, fragment, measured.table, layers)
    if as_json:
        head = {"file": names[0], "id": fragment.id, "arch": measured.arch, "source": measured.source}
        click.echo(json.dumps({**head, "evidence": measured.evidence, **answer._asdict()}))
    else:
        answers.against(names[0], measured, answer)
    return not answer.first and not (asked["complete"] and answer.holes)


COMMANDS = (compare,)
