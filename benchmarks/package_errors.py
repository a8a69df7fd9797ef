"""The errors that `check` finds in samples of packages: python benchmarks/package_errors.py FOUND SEED MB ARCH FILE...

Of each library or wheel the cubins of an arch (or of several, with commas), drawn at random by SEED until they are MB
megabytes, none larger than three times as much, are looked at by the rules of severity error and `cp-async-proxy`.
FOUND is a file to which a JSON line is added for every kernel with a finding other than a note, and one for every
library that says how much was looked at. Libraries are mapped, not read. Nothing is downloaded: `pip download` fetches.

--table FOUND prints what it has: libraries, then findings by rule and text. --keep FOLDER keeps the cubins.
--save FOUND... puts it into results/package_errors.json, of which `tcprobe pages` makes a table; what reading a finding
by hand said (`verdict`, `argued`) stays with its library, rule and text.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tcprobe.check.code_check import Checker
from tcprobe.check.rule import rules
from tcprobe.errors import DataError
from tcprobe.sass import toolchain
from tcprobe.sass.code_files import CodeFiles
from tcprobe.sass.image import Entry, entries
from tcprobe.system import files

LIBRARIES = (".so", ".cubin", ".fatbin")
SAVED = Path(__file__).parent.parent / "results" / "package_errors.json"
KEY = ("rule", "severity", "text")
MOST = 40  # cubins of a wheel that has them as files


def libraries(path: Path, folder: Path, seed: int) -> Iterator[tuple[str, Path]]:
    """(name, file) of a library, or of those in a wheel, unpacked into a folder and removed afterwards.

    Of a wheel's cubins MOST, drawn at random.
    """
    if path.suffix != ".whl":
        yield path.name, path
        return
    with zipfile.ZipFile(path) as wheel:
        names = sorted(name for name in wheel.namelist() if name.endswith(LIBRARIES) or ".so." in name)
        cubins = [name for name in names if name.endswith(".cubin")]
        drawn = set(random.Random(seed).sample(cubins, min(MOST, len(cubins))))
        for name in names:
            if name in drawn or not name.endswith(".cubin"):
                file = Path(wheel.extract(name, folder))
                yield f"{'-'.join(path.name.split('-')[:2])}: {name}", file
                file.unlink()


def sample(file: Path, archs: Sequence[str], seed: int, most: float) -> tuple[list[bytes], int]:
    """(cubins drawn at random, of how many)."""
    try:
        there = entries(files.contents(file) or b"")
    except DataError:
        return [], 0
    found = [e for e in there if isinstance(e, Entry) and e.kind == "cubin" and (e.arch is None or e.arch in archs)]
    drawn: list[bytes] = []
    size = 0
    for entry in random.Random(seed).sample(found, len(found)):
        if size >= most:
            break
        if entry.cost > 3 * most:
            continue
        try:
            drawn.append(entry.unpacked())
        except DataError as error:
            print(f"{file.name}: {error}", file=sys.stderr)
        size += entry.cost
    return drawn, len(found)


def looked_at(name: str, drawn: Sequence[bytes], of: int, archs: str, keep: Path | None) -> Iterator[dict[str, Any]]:
    """A row for each kernel with a finding, then one for the file."""
    chosen = [rule.NAME for rule in rules().values() if rule.SEVERITY == "error" or rule.NAME == "cp-async-proxy"]
    tools = toolchain.find(None)
    checker = Checker(tools, chosen, CodeFiles(tools))
    begun, kernels, counts = time.process_time(), 0, Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for number, raw in enumerate(drawn):
            path = (keep or Path(folder)) / f"{name.replace('/', '_').replace(': ', '_')}.{number}.cubin"
            path.write_bytes(raw)
            paths.append(path)
        for kernel in checker.check(paths):
            kernels += 1
            placed = [p.finding for p in kernel.findings]
            counts.update(f"{f.rule} {f.severity}" for f in placed)
            shown = [f for f in placed if f.severity != "note"]
            if shown:
                yield {
                    "file": name,
                    "cubin": Path(kernel.file).name,
                    "arch": kernel.arch,
                    "kernel": kernel.kernel,
                    "findings": [[f.rule, f.severity, f.address, f.text, dict(f.numbers)] for f in shown],
                }
    seconds = round(time.process_time() - begun, 1)
    row = {"file": name, "archs": archs, "cubins": len(drawn), "of": of, "kernels": kernels, "seconds": seconds}
    yield row | {"bytes": sum(map(len, drawn)), "found": dict(counts), "unread": len(checker.complaints)}


def table(found: Path) -> Iterator[str]:
    """Files, then findings by file, rule and text."""
    rows = [json.loads(line) for line in found.read_text().splitlines()]
    for row in rows:
        if "cubins" in row:
            words = ", ".join(f"{n} {what}" for what, n in sorted(row["found"].items())) or "nothing"
            of = f"{row['cubins']} of {row['of']} cubins, {row['bytes'] / 1e6:.1f} MB, {row['kernels']} kernels"
            yield f"{row['file']} {row['archs']}: {of}, {row['seconds']} s: {words}"
    texts = Counter[tuple[str, str, str, str]]()
    kernels: dict[tuple[str, str, str, str], set[str]] = {}
    for row in rows:
        for rule, severity, _, text, _ in row.get("findings", ()):
            key = row["file"], rule, severity, text
            texts[key] += 1
            kernels.setdefault(key, set()).add(row["kernel"])
    for key, count in sorted(texts.items()):
        yield f"{count} in {len(kernels[key])} kernels: {': '.join(key)}"


def saved(founds: Sequence[Path], before: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each package and the archs that were asked for, with its findings by rule and text."""
    known = {(of["package"], *(f[key] for key in KEY)): f for of in before for f in of["findings"]}
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    kernels: dict[tuple[str, ...], set[str]] = {}
    for found in founds:
        for row in map(json.loads, found.read_text().splitlines()):
            package = row["file"].partition(": ")[0]
            if "cubins" in row:
                of = rows.setdefault((package, row["archs"]), {"package": package, "archs": row["archs"]})
                for key in ("cubins", "of", "kernels", "bytes"):
                    of[key] = of.get(key, 0) + row[key]
                of["libraries"] = of.get("libraries", 0) + 1
                of["held_out"] = "held" in found.stem
                of.setdefault("findings", [])
            for rule, severity, _, text, _ in row.get("findings", ()):
                kernels.setdefault((package, rule, severity, text), set()).add(row["kernel"])
    for (package, *key), names in sorted(kernels.items()):
        of = next(row for (name, _), row in sorted(rows.items()) if name == package)
        finding = dict(zip(KEY, key, strict=True)) | {"kernels": len(names), "verdict": "", "argued": ""}
        judged = known.get((package, *key), {})
        of["findings"].append(finding | {k: judged[k] for k in ("verdict", "argued") if judged.get(k)})
    return [rows[key] for key in sorted(rows)]


def main(arguments: Sequence[str]) -> None:
    if arguments[:1] == ["--save"]:
        before = json.loads(SAVED.read_text()) if SAVED.is_file() else []
        SAVED.write_text(json.dumps(saved([Path(name) for name in arguments[1:]], before), indent=1) + "\n")
        return
    if arguments[:1] == ["--table"]:
        print(*table(Path(arguments[1])), sep="\n")
        return
    keep = None
    if arguments[:1] == ["--keep"]:
        keep, arguments = Path(arguments[1]), arguments[2:]
        keep.mkdir(parents=True, exist_ok=True)
    found, seed, megabytes, archs, *given = arguments
    with Path(found).open("a") as to:
        for path in map(Path, given):
            with tempfile.TemporaryDirectory() as folder:
                for name, file in libraries(path, Path(folder), int(seed)):
                    drawn, of = sample(file, archs.split(","), int(seed), float(megabytes) * 1e6)
                    if drawn:
                        for row in looked_at(name, drawn, of, archs, keep):
                            to.write(json.dumps(row) + "\n")
                            to.flush()
                        print(f"{name}: {row['kernels']} kernels, {row['found']}, {row['seconds']} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
