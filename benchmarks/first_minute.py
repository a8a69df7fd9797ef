"""The first minute of an arch that no GPU was seen of: python benchmarks/first_minute.py [ARCH]...

Emulated GPUs of sm_100 and sm_120, on which whatever no GPU has run goes wrong in each of seven ways, family by family,
beside others of the families that do not (tests/first_minute.py). Prints what each fault cost, as a table: of its own
cells, how many are as they should be and name the fault; of the others, how many were measured all the same; seconds
that the fault takes, with a process that starts anew. About six minutes; exit code 1 if anything else was lost.
"""

from __future__ import annotations

import sys
import tempfile
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import first_minute
from test_first_minute import STATUS, strange

from tcprobe.run.contribute import _family


def main() -> int:
    """Try every round of every arch, print the table; 1 if a fault cost more than its own cell."""
    lost = 0
    for name in sys.argv[1:] or ("sm_100", "sm_120"):
        cells, wrong, examples = defaultdict(list), defaultdict(list), {}
        others, measured, seconds = 0, 0, 0.0
        for faults, beside in first_minute.rounds(name):
            with tempfile.TemporaryDirectory() as folder:
                found, took = first_minute.tried(name, faults, beside, Path(folder))
            odd = {id_ for id_, *_ in strange(found, faults)}
            for id_, fault in faults.items():
                cells[fault].append(id_)
                wrong[fault] += [id_] if id_ in odd else []
                examples.setdefault(
                    fault, (found[id_][0], found[id_][1] or "what it holds, which is not as documented")
                )
            others, measured, seconds = others + len(beside), measured + len(set(beside) - odd), seconds + took
        print(f"{name}: {len(cells['traps'])} families: {', '.join(sorted(map(_family, cells['traps'])))}")
        print(f"{measured} of {others} experiments beside the faults were measured; {seconds:.0f} s in all\n")
        print("| fault | its cells | as they should be | one says |", "|---|--:|--:|---|", sep="\n")
        for fault, ids in cells.items():
            status, words = examples[fault]
            assert status == STATUS.get(fault, "failed") or wrong[fault]
            print(f"| {fault} | {len(ids)} | {len(ids) - len(wrong[fault])} | {status}: {words[:110]} |")
        print(flush=True)
        lost += others - measured + sum(map(len, wrong.values()))
    return int(lost > 0)


if __name__ == "__main__":
    sys.exit(main())
