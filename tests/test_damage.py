"""Damaged cubins and disassemblies are refused, or what they change is found out; nothing crashes or hangs.

python tests/test_damage.py [COUNT]     # COUNT (3,000) over four archs, half of them cubins
"""

import sys
import time
from collections import Counter
from functools import cache

import pytest
from damage import KINDS, Reader, tried
from machine_code import needs_tools
from mutations import OUTCOMES

ARCHS = ("sm_75", "sm_80", "sm_90", "sm_120")
SECONDS = 20


@cache
def reader(name):
    return Reader(name)


@needs_tools
@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_refused_or_found_out(kind, sample):
    """A sample of one arch."""
    counts = Counter()
    for seed in sample(range(40), 20):
        outcome, wrong = tried(reader("sm_80"), kind, seed)
        assert not wrong, (kind, seed, wrong)
        counts[outcome] += 1
    assert counts["refused"] * 4 > counts.total()


def timed(name, kind, seed):
    """What came of a damage, and the seconds that it took."""
    began = time.monotonic()
    return *tried(reader(name), kind, seed), time.monotonic() - began


def main(count):
    """Try `count` damages; 1 if anything crashed, hung or ended as a wrong table."""
    bad = 0
    print(f"{'arch':<8}{'damaged':<16}{'tried':>7}", *(f"{o:>13}" for o in (*OUTCOMES, "crashed", "hung")), sep="")
    for name in ARCHS:
        for kind in KINDS:
            counts = Counter()
            for seed in range(count // len(ARCHS) // len(KINDS)):
                outcome, wrong, seconds = timed(name, kind, seed)
                late = seconds > SECONDS and timed(name, kind, seed)[2] > SECONDS  # twice: not for a busy machine
                counts["hung" if late else outcome] += 1
                if wrong:
                    print(f"    {kind} of {name}, seed {seed}: {outcome}: {wrong[:3]}", flush=True)
            cells = "".join(f"{counts[o]:>13}" for o in (*OUTCOMES, "crashed", "hung"))
            print(f"{name:<8}{kind:<16}{sum(counts.values()):>7}{cells}", flush=True)
            bad += counts["wrong"] + counts["crashed"] + counts["hung"]
        reader.cache_clear()
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 3000))
