"""What people type first, and whether it is answered as they mean it:

    python benchmarks/first_tries.py            the lines of first_tries.csv that were worked with
    python benchmarks/first_tries.py --held     those that were kept aside until the words were done
    python benchmarks/first_tries.py --all      both

A line is `try`, words as a person types them, and `means`, the command with options that has the right answer. A try is
right if its JSON (its code, where the command has none) is that command's; within, if it was refused with a command
that is. Printed: each try that is not right, what was said, and how many are right, within, wrong and refused.
"""

import argparse
import contextlib
import csv
import shlex
import sys
import tempfile
from collections import Counter
from pathlib import Path

from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tcprobe.cli import main as group

TRIES = Path(__file__).with_suffix(".csv")
DIFFERING = ("agree", "diff", "compare")  # whose exit code 1 is an answer


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--held", action="store_true")
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    with TRIES.open(encoding="utf-8", newline="") as lines:
        tries = [row for row in csv.DictReader(lines) if options.all or bool(row["held"]) == options.held]
    counts = Counter()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for row in tries:
            outcome, said = judged(shlex.split(row["try"]), shlex.split(row["means"]))
            counts[outcome] += 1
            if outcome != "right":
                print(f"{outcome}: {row['try']}", *said.splitlines()[:3], sep="\n    ")
    print(", ".join(f"{counts[name]} {name}" for name in ("right", "within", "wrong", "refused")), "of", len(tries))


def judged(words, means):
    """What became of a try, and what was said."""
    right, told = answered(means)
    if right is None:
        return "unanswerable", f"{shlex.join(means)}: {told}"
    found, said = answered(words)
    if found is not None:
        return ("right", said) if found == right else ("wrong", said)
    lines = [shlex.split(line)[1:] for line in said.splitlines() if line.startswith("  tcprobe ")]
    return ("within" if lines and answered(lines[0])[0] == right else "refused"), said


def answered(words):
    """The JSON of a command, or its text where it has no JSON; None where it has no answer. And what it said beside."""
    for asked in ([*words, "--json"], words):
        done = CliRunner().invoke(group, asked, prog_name="tcprobe")
        if done.exit_code in (0, *((1,) if words[0] in DIFFERING else ())):
            return done.stdout, done.stderr
    return None, done.stderr or repr(done.exception)


if __name__ == "__main__":
    main()
