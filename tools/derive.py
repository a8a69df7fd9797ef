"""What follows from the results: python tools/derive.py writes it, --check compares.

Pages and grids of results/ (`tcprobe pages`), the README's line of counts, and tests/golden/addresses.txt, the
addresses of the site's pages, of which none may disappear. A job of main runs it after results have changed, so that a
contribution changes its own files only.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README, ADDRESSES = ROOT / "README.md", ROOT / "tests" / "golden" / "addresses.txt"
COUNTS = re.compile(r"(<!-- counted by tools/derive.py -->\n).*?(\n<!-- counted -->)", re.DOTALL)


def counts() -> str:
    """How many findings GPUs of each kind gave, and how many tables machine code."""
    from tcprobe.run.merge import measured_findings
    from tcprobe.store.finding import FROM_CODE
    from tcprobe.store.results import published

    found = list(measured_findings(published()))
    by_gpu = Counter((f.provenance["device"], f.arch) for f in found if f.method == "live")
    code = [f for f in found if f.method in FROM_CODE and f.key.kind == "table"]
    gpus = ", ".join(f"{count:,} on {name} ({arch})" for (name, arch), count in sorted(by_gpu.items()))
    archs = len({f.arch for f in code})
    return f"Findings measured on GPUs: {gpus}. Tables from machine code: {len(code):,}, of {archs} archs."


def addresses() -> set[str]:
    """The pages and data of the site."""
    from tcprobe.pages.site.build import build
    from tcprobe.pages.site.facts import gather
    from tcprobe.store.choose import alone
    from tcprobe.store.results import published

    return {name for name in build(gather(alone(published()))) if name.endswith(".html") or name.startswith("json/")}


def derived() -> dict[Path, str]:
    """The texts of all files that follow, by path."""
    from tcprobe.pages.overview import render
    from tcprobe.store.results import Results

    results = Results(ROOT / "results")
    readme = COUNTS.sub(lambda found: f"{found[1]}{counts()}{found[2]}", README.read_text("utf-8"))
    listed = sorted(addresses() | set(ADDRESSES.read_text("utf-8").split()))
    return {**render(results), README: readme, ADDRESSES: "".join(f"{name}\n" for name in listed)}


def main(check: bool) -> int:
    """Write, or say what is out of date."""
    stale = {path: text for path, text in derived().items() if not path.exists() or path.read_text("utf-8") != text}
    for path, text in stale.items():
        print("stale:" if check else "written:", path.relative_to(ROOT))
        if not check:
            path.write_text(text, "utf-8")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] == ["--check"]))
