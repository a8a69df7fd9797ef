"""CPU seconds of the tests by file, and the dearest tests: python benchmarks/suite.py [PYTEST ARGUMENTS]

CPU seconds, with those of the programs that a test starts and waits for, say the same on a busy machine. What several
tests share counts for the first that asks. All runs in this process, so that each second counts once (`-p no:xdist`).
"""

import os
import sys
from collections import Counter

import pytest

DEAREST = 25


class Meter:
    """Counts what each test costs, and what collecting them does."""

    def __init__(self):
        self.by_test, self.start = Counter(), spent()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        before = spent()
        try:
            return (yield)
        finally:
            self.by_test[item.nodeid] += spent() - before

    def pytest_terminal_summary(self, terminalreporter):
        by_file = Counter()
        for name, seconds in self.by_test.items():
            by_file[name.partition("::")[0]] += seconds
        whole = spent() - self.start
        by_file["collecting, and the rest"] = whole - by_file.total()
        terminalreporter.section(f"{whole:.0f} CPU seconds")
        for table in (by_file.most_common(), self.by_test.most_common(DEAREST)):
            terminalreporter.write_line("".join(f"{seconds:>8.1f}  {name}\n" for name, seconds in table))


def spent():
    """CPU seconds of this process and of those that it has waited for."""
    return sum(os.times()[:4])


if __name__ == "__main__":
    sys.exit(pytest.main(["-q", "-p", "no:xdist", *sys.argv[1:]], plugins=[Meter()]))
