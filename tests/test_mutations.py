"""Machine code with one thing changed: noticed or harmless, but never published as a wrong table.

python tests/test_mutations.py [ARCH]...     # everything: five archs, seven kinds of change, half an hour on one core
"""

import sys
from functools import cache
from multiprocessing import Pool

import pytest
from machine_code import needs_tools
from mutations import KINDS, OUTCOMES, Run

ARCHS = ("sm_70", "sm_75", "sm_80", "sm_90", "sm_100")


@pytest.mark.full
@needs_tools
@pytest.mark.parametrize("name", ARCHS)
def test_a_change_is_noticed_or_harmless(name):
    """A sample; `python tests/test_mutations.py` runs all."""
    run = Run(name)
    for kind, every in zip(KINDS, (211, 127, 83, 211, 61, 421, 83), strict=True):
        counts, wrong = run.count(kind, every)
        assert wrong == [], kind
        assert counts["refused"] > 0 or not sum(counts.values()), kind


@cache
def run_of(name):
    return Run(name)


def everything(task):
    name, kind = task
    return name, kind, *run_of(name).count(kind)


if __name__ == "__main__":
    print(f"{'arch':<8}{'what was changed':<22}{'tried':>7}", *(f"{o:>13}" for o in OUTCOMES), sep="")
    with Pool(2) as pool:
        tasks = [(name, kind) for name in sys.argv[1:] or ARCHS for kind in KINDS]
        for arch_name, what, totals, survivors in pool.imap(everything, tasks):
            cells = "".join(f"{totals[outcome]:>13}" for outcome in OUTCOMES)
            print(f"{arch_name:<8}{what:<22}{sum(totals.values()):>7}{cells}", flush=True)
            for survivor in survivors:
                print("    wrong:", *survivor, sep=" | ", flush=True)
