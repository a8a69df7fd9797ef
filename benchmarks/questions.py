"""Plain questions and the command that `tcprobe find` should name first: python benchmarks/questions.py [--held]

benchmarks/questions.csv has them, from public threads and in own words; every third was kept back while the phrases of
find.csv were written, and is counted apart.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from tcprobe.ask.find import find
from tcprobe.errors import UsageError

FILE = Path(__file__).parent / "questions.csv"


def first(question: str) -> str:
    """The command that is named first, "" for none."""
    try:
        return find([question])[0].name
    except UsageError:
        return ""


def counted(show: bool) -> dict[bool, list[bool]]:
    """Whether each is right, those that were kept back and the others."""
    found: dict[bool, list[bool]] = {False: [], True: []}
    for number, row in enumerate(csv.DictReader(FILE.read_text("utf-8").splitlines())):
        held, name = number % 3 == 2, first(row["question"])
        right = name in row["commands"].split("|")
        found[held].append(right)
        if show and not right and (not held or "--held" in sys.argv):
            print(f"{row['question']}: {name or 'nothing'}, not {row['commands']}")
    return found


if __name__ == "__main__":
    for held, rights in counted(show=True).items():
        print(f"{'kept back' if held else 'known'}: {sum(rights)} of {len(rights)} right first")
