"""Numbers of several modes, from surveys of one kind of GPU: python benchmarks/modes.py RESULTS OTHER...

A loop whose own runs fall into two modes says so when it is measured. What is of one mode in a process, such as which
slice of L2 an address is in, or how warps of two opcodes meet, shows only in several surveys
(`tcprobe run --method live --family cost`, and prices, each with --results of its own). Numbers of RESULTS that another
survey contradicts get both as `modes`, that of RESULTS first; findings of other devices are left out. Says which.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from tcprobe.isa.arch import ARCHS
from tcprobe.store import findings, kinds
from tcprobe.store.finding import Finding, witness
from tcprobe.store.kinds.cost import apart
from tcprobe.store.results import Results

KINDS = ("cost", "prices")


def measured(results: Results) -> Iterator[Finding]:
    """All findings of KINDS that have numbers."""
    every = (one for kind in KINDS for row in ARCHS for one in findings.every(results, kind, row.name))
    return (one for one in every if one.body is not None)


def with_modes(finding: Finding, surveys: Sequence[Mapping[str, float]]) -> Finding:
    """A finding with what its numbers are in other surveys, by name, where that is another mode."""
    modes = dict(finding.body.modes)
    for name, cycles in kinds.kind(finding.kind).numbers(finding.body).items():
        values = list(modes.get(name, [cycles]))
        for other in (survey[name] for survey in surveys if name in survey):
            values += [other] if apart([*values, other]) else []
        modes |= {name: values} if len(values) > 1 else {}
    return replace(finding, body=msgspec.structs.replace(finding.body, modes=dict(sorted(modes.items()))))


def main(folder: str, *others: str) -> None:
    surveys = [{one.key: one for one in measured(Results(Path(other)))} for other in others]
    for finding in list(measured(Results(Path(folder)))):
        known = [survey[finding.key] for survey in surveys if finding.key in survey]
        alike = [one for one in known if witness(one) == witness(finding)]
        found = with_modes(finding, [kinds.kind(one.kind).numbers(one.body) for one in alike])
        if found != finding:
            findings.save(Results(Path(folder)), found)
            new = {name: values for name, values in found.body.modes.items() if name not in finding.body.modes}
            for name, values in new.items():
                print(f"{finding.arch} {finding.subject} {name}: {' or '.join(f'{cycles:g}' for cycles in values)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
