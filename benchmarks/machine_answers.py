"""What `check`, `predict` and `read` say of public packages' kernels, and whether they still do:

    python benchmarks/machine_answers.py FOLDER            ask again; print the kernels with another answer
    python benchmarks/machine_answers.py FOLDER --write    write machine_answers.csv again

FOLDER holds the packages of PACKAGES, unpacked, as `pip download --no-deps NAME==VERSION` and `unzip` leave them.
Of each kernel and command machine_answers.csv keeps a digest of the JSON answer without the file's name. `--only TEXT`
takes the files whose name contains a text.
"""

import argparse
import csv
import hashlib
import json
import sys
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path

from tcprobe.check.code_check import Checker
from tcprobe.check.rule import rules
from tcprobe.loops.loop import main_loops
from tcprobe.loops.predict import predict
from tcprobe.sass.code_files import CodeFiles
from tcprobe.sass.disassemble import programs
from tcprobe.sass.toolchain import disassembler
from tcprobe.text import escaped

KEPT = Path(__file__).with_suffix(".csv")
# file below the package's folder, archs, kernels by name, commands
ASKED = (
    ("libbitsandbytes_cuda128.so", ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"), "*"),
    ("libctranslate2-a7a60d30.so.4.8.5", ("sm_80",), "*"),
    ("flashmla_ops.abi3.so", ("sm_90", "sm_100"), "*"),
)
PACKAGES = ("bitsandbytes==0.50.2", "ctranslate2==4.8.5", "sgl-kernel==0.3.21")
PREDICTED = ("sm_90",)  # the archs with prices


def digest(answer):
    """16 digits of a hash of an answer."""
    return hashlib.sha256(json.dumps(answer, sort_keys=True).encode()).hexdigest()[:16]


def answers(folder, only):
    """(file, arch, kernel as a digest of its name and its number among those of that name, command, digest)."""
    for name, archs, pattern in ASKED:
        if only not in name:
            continue
        path = next(iter(sorted(folder.rglob(name))), None)
        if path is None:
            sys.exit(f"{name} is not below {folder}: unpack {', '.join(PACKAGES)} there.")
        for arch in archs:
            yield from checked(path, arch, pattern)
            if arch in PREDICTED:
                yield from predicted(path, arch, pattern)


def checked(path, arch, pattern):
    """The answers of `check`, and what could not be read, as one answer."""
    checker = Checker(disassembler(), list(rules()), CodeFiles(disassembler(), [arch]), pattern)
    seen = Counter()
    for found in checker.check([path]):
        seen[found.kernel] += 1
        answer = {**found.to_json(), "file": ""}
        yield path.name, arch, digest([found.kernel, seen[found.kernel]]), "check", digest(answer)
    said = [text.replace(str(path), "") for text in (*checker.complaints, *checker.notes)]
    yield path.name, arch, "", "check", digest(said)


def predicted(path, arch, pattern):
    """The answers of `predict` about each kernel's main loops."""
    tools = disassembler()
    seen = Counter()
    for compiled in CodeFiles(tools, [arch]).read(path):
        functions = [f for f in compiled.cubin.functions if fnmatchcase(escaped(f.name), pattern)]
        for kernel in programs(tools, compiled.cubin.arch, functions):
            if isinstance(kernel, Exception):
                continue
            seen[kernel.name] += 1
            loops = [predict(loop).to_json() for loop in main_loops(kernel)]
            yield path.name, arch, digest([kernel.name, seen[kernel.name]]), "predict", digest(loops)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    now = list(answers(given.folder, given.only))
    if given.write:
        with KEPT.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(now)
    with KEPT.open(newline="") as file:
        kept = {tuple(row[:4]): row[4] for row in csv.reader(file) if given.only in row[0]}
    other = [row for row in now if kept.pop(row[:4], None) != row[4]]
    for row in other:
        print("otherwise:", *row)
    for row in kept:
        print("missing:", *row)
    print(f"{len(now)} answers, {len(other)} otherwise, {len(kept)} missing")
    sys.exit(bool(other or kept))
