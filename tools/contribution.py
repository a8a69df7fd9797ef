"""What a request that changes results adds to them: python tools/contribution.py THEIRS OURS

THEIRS is the request's results folder, merged with OURS, as Git checks it out. Files that it adds are checked as
`tcprobe merge --check` does. One that it changes or removes contradicts what is published, and so does one that `merge`
would not have written. Prints Markdown for a comment. Exit code 0 where all fits, 1 where something contradicts, 4
where a file cannot be trusted.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

MOST_LINES = 60
OWN = re.compile(r"(runs/[a-z0-9][a-z0-9.-]{0,79}/[A-Za-z0-9_./-]+|layouts/[0-9a-f]{12})\.json")  # what `merge` writes
DERIVED = (".md",)  # files that a job of main writes
PROGRAM = (sys.executable, "-m", "tcprobe")
WORDS = {
    0: "What this adds fits what is published.",
    1: "**Something here contradicts what is published.** Both are kept, with their devices, until a third decides.",
    4: "**This cannot be trusted, so it cannot be merged.**",
}


def main(theirs: Path, ours: Path) -> int:
    """Compare the folders, print the comment."""
    there, here = (
        {
            p.relative_to(root).as_posix(): p
            for p in root.rglob("*")
            if (p.is_file() or p.is_symlink()) and p.suffix not in DERIVED
        }
        for root in (theirs, ours)
    )
    strange = sorted(n for n in set(there) - set(here) if there[n].is_symlink() or not OWN.fullmatch(n))
    added = sorted(set(there) - set(here) - set(strange))
    changed = [name for name in here if name not in there or there[name].read_bytes() != here[name].read_bytes()]
    lines, code = [], 0
    if added:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "added"
            runs = {Path(*Path(name).parts[:2]) for name in added if name.startswith("runs/")}
            layouts = [name for name in there if name.startswith("layouts/")]
            for name in {*added, *layouts, *(f"{run.as_posix()}/run.json" for run in runs)} & set(there):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(there[name], folder / name)
            command = [*PROGRAM, "merge", str(folder), "--check", "--results", str(ours)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            code = done.returncode
            lines = [text.replace(f"{scratch}/", "") for text in (done.stdout + done.stderr).splitlines()]
    odd = [f"published, and changed or removed here: {name}" for name in sorted(changed)]
    odd += [f"no file of a contribution: {name}" for name in strange]
    if odd and code in (0, 1):
        lines, code = [*lines, *odd], 1
    more = [f"and {len(lines) - MOST_LINES} lines more"] if len(lines) > MOST_LINES else []
    told = ["".join(c if c.isprintable() and c != "`" else "?" for c in line) for line in [*lines[:MOST_LINES], *more]]
    print("\n".join([WORDS.get(code, f"The check ended with code {code}."), "", "```", *told, "```"]))
    return code


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
