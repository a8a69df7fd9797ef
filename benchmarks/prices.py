"""Prices of one survey beside those of another: python benchmarks/prices.py RESULTS OTHER

    python -m tcprobe run --family prices --method live --stages --results RESULTS

makes a survey, and goes on where it was stopped: 30 to 60 s with 16 cores, and 10 s for each opcode that faults.

How many numbers differ by more than 2 % (two surveys of one machine should agree for 99 %), the ones that differ most,
and all prices of the first, a line each, with what was refused.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tcprobe.isa.arch import ARCHS
from tcprobe.store import findings
from tcprobe.store.finding import Finding
from tcprobe.store.kinds import prices
from tcprobe.store.results import Results

APART = 0.02
SHOWN = 40
KIND = "prices"


def found(folder: str) -> dict[str, Finding]:
    """All findings of a folder, by arch and subject."""
    every = [one for row in ARCHS for one in findings.every(Results(Path(folder)), KIND, row.name)]
    return {f"{one.arch} {one.subject}": one for one in every}


def compare(first: dict[str, Finding], second: dict[str, Finding]) -> None:
    """How many numbers differ, and which."""
    apart = []
    both = [key for key in first.keys() & second.keys() if first[key].body and second[key].body]
    for key in both:
        one, other = prices.numbers(first[key].body), prices.numbers(second[key].body)
        for name in one.keys() & other.keys():
            apart.append(
                (abs(one[name] - other[name]) / max(one[name], other[name]), key, name, one[name], other[name])
            )
        if first[key].body.pipe != second[key].body.pipe:
            print(f"{key}: pipe {first[key].body.pipe} and {second[key].body.pipe}")
    far = sorted((a for a in apart if a[0] > APART), reverse=True)
    print(f"{len(first)} and {len(second)} opcodes, {len(first.keys() ^ second.keys())} in one only")
    print(f"{len(far)} of {len(apart)} numbers differ by more than {APART:.0%}: {len(far) / max(len(apart), 1):.2%}")
    for share, key, name, value, other_value in far[:SHOWN]:
        print(f"  {share:6.1%} {key} {name}: {value:g} and {other_value:g}")


def show(every: dict[str, Finding]) -> None:
    """A line a price; lines of what is beside it, and of what was refused."""
    for key, finding in every.items():
        body = finding.body
        if body is None:
            print(f"{key}: {finding.status}: {finding.words}")
            continue
        latency = " ".join(f"{operand} {cycles}" for operand, cycles in body.latency.items())
        best = body.interval
        interval = f"{best.cycles:g} ({best.warps} warps of {best.chains})" if best else "none"
        print(f"{key}: latency {latency}; SM {interval}; one warp {body.one_warp}; {body.pipe}; {body.opcodes}")
        print("    " + " ".join(f"{p.warps}x{p.chains}:{p.cycles:g}" for p in body.curve))
        print("    " + "; ".join(f"{o} {v.alone[0]:g}+{v.alone[1]:g}={v.together:g}" for o, v in body.beside.items()))
        for row in body.reads:
            print(f"    reads {row.banks}: {row.cycles:g}")
        for axis, points in body.by.items():
            print(f"    {axis}: " + ", ".join(f"{p.at}: {p.cycles:g}" for p in points))
        for variant, why in body.refused.items():
            print(f"    refused {variant}: {why[:200]}")


def main(folders: list[str]) -> None:
    every = [found(folder) for folder in folders]
    if len(every) > 1:
        compare(*every[:2])
    show(every[0])


if __name__ == "__main__":
    main(sys.argv[1:])
