"""What commands and Python functions answered, and whether they still do:

    python benchmarks/answers.py              ask every question of answers.csv; print those with another answer
    python benchmarks/answers.py --write      write answers.csv again, with the questions of `questions`
    python benchmarks/answers.py --at COMMIT  ask that commit's code too, and print both answers where they differ

A question is a command line, or a call of Python as JSON. Of an answer answers.csv keeps the exit code and digests of
the two streams. Each question is asked in its own process, with GPUs and CUDA toolkits hidden. `--only TEXT` takes the
questions that contain a text.
"""

import argparse
import csv
import difflib
import hashlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT = Path(__file__).with_suffix(".csv")
SERVER = Path(__file__).with_name("answers_server.py")
ARCHS = (
    "sm_70",
    "sm_75",
    "sm_80",
    "sm_86",
    "sm_89",
    "sm_90",
    "sm_100",
    "sm_103",
    "sm_107",
    "sm_110",
    "sm_120",
    "sm_121",
)
A, D = (f"mma.m16n8k16.row.col.f32.bf16.bf16.f32.{operand}" for operand in "ad")
FORMS = """wmma.mma.row.col.m16n16k16.f32.f32
mma.m16n8k16.row.col.f32.f16.f16.f32
mma.m8n8k4.row.col.f32.f16.f16.f32
mma.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e3m2.f32
mma.sp.m16n8k16.row.col.f32.f16.f16.f32
mma.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3
mma.sp::ordered_metadata.m16n8k64.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e2m1.f32.ue8m0
ldmatrix.m8n8.x4.shared.b16
ldmatrix.m16n16.x1.trans.shared.b8
stmatrix.m8n8.x4.shared.b16
movmatrix.m8n8.trans.b16
wgmma.mma_async.m64n8k16.f32.f16.f16
wgmma.mma_async.m64n256k16.f32.bf16.bf16
wgmma.mma_async.sp.m64n8k32.f32.f16.f16
tcgen05.mma.cta_group::1.kind::f16
tcgen05.mma.cta_group::2.kind::mxf4nvf4
tcgen05.ld.16x64b
tcgen05.cp.64x128b"""
OPERANDS = ("a", "b", "c", "d", "e", "a_smem", "b_smem", "scale_a", "address")
# of a form, and of an operand of it
OF_FORM = """list {0}
list {0} --json
show {0}
show {0} --json
show {0} --arch all
show {0} --why
why-not {0} --arch sm_75
why-not {0} --arch sm_121 --json
trace {0} --row 1 --col 2
trace {0} --operand a --lane 1 --i 0 --json
lower {0}
lower {0} --arch sm_120 --json
numerics {0}
numerics {0} --json
cost {0}
cost {0} --json
compare {0}
compare {0} --json
diff sm_80 sm_90 {0}
diff sm_90 sm_120 {0} --json
verify {0}
cost {0} --arch sm_80"""
OF_OPERAND = """show {0}
show {0} --full
show {0} --json
where {0} --row 1 --col 1
where {0} --lane 1 --i 0 --json
where {0} --lane 0-3
convert {0} {0}
convert {0} stmatrix.x4
reduce {0} --over row --op max
reduce {0} --mask "row >= col"
load {0}
load {0} --json
banks {0} --tile 64x64 --with ldmatrix.x4
path {0} --tile 64x64 --shared SWIZZLE_128B
compare {0}
emit {0} --to cuda
emit {0} --to svg
emit {0} --to csv
emit {0} --to sympy"""
OF_ARCH = """show m16n8k16 bf16 f32 a --arch {0}
list --arch {0} --family mma
why-not wgmma --arch {0}
diff sm_90 {0}
why-not wmma.m16n16k16.a.row.f16 --arch {0} --json
compare --arch {0}
kernel gemm --arch {0} --type f16
kernel gemm --arch {0} --type e4m3 --json
cost m16n8k16 f16 f32 --arch {0}
numerics m16n8k16 f16 f32 --arch {0} --json
kernel gemm --arch {0} --type bf16 --explain 1 2 3
where m16n8k16 f16 f32 d --row 0 --arch {0} --json"""
OF_FORMAT = """emit wmma.mma.row.col.m16n16k16.f32.f32 --to {0}
emit mma m16n8k16 bf16 a --to {0}
emit wgmma.m64n8k16.f16.d --to {0}"""
SINGLE = f"""show m16n8k16 bf16 f32 a --lanes
show m16n8k16 bf16 f32 a --elements
show '*.e' --arch sm_90
list
list --json
banks {A} --tile 64x64 --with cp.async.16 ldmatrix.x4 --propose
banks {A} --tile 64x64 --with ldmatrix.x4 --shared pad:8 --json
banks --tile 32x32 --type f32 --with st.shared.b32@rows --explain
banks --rule ldmatrix
banks --address 'lane * 8' --with ld.shared.b64
convert {D} {A}
convert {D} {A} --json
convert {D} {A} --transpose
convert {D} stmatrix --type bf16 --json
convert {D} {A} --name f --namespace n
convert mma.m16n8k32.row.col.f32.e4m3.e4m3.f32.d mma.m16n8k32.row.col.f32.e4m3.e4m3.f32.a --permute-k --json
reduce {D} --over col --op softmax
reduce {D} --over row --tile 64x64 --json
reduce {D} --fill 'row * 8 + col'
path {A} --tile 64x64 --with ldmatrix.x4 --fill tma
path {A} --tile 16x32 --ld 36 --fill plain --with ld.shared.b32 --code cuda
path {A} --tile 64x64 --shared sw:3,4,3 --with ldmatrix.x4 --json
path {D} --tile 64x64 --with st.shared.b64 --code cute
load mma.m16n8k16.row.col.f32.bf16.bf16.f32.b --repack --type s4 --group 64
load {A} --code
load mma.m16n8k16.row.col.f32.bf16.bf16.f32.b --repack --type u4 --group 64 --zeros --json
descriptor --tile 128x64 --type bf16
descriptor --tile 128x64 --type bf16 --swizzle 64 --json
descriptor 0x4000004000010000
descriptor --tcgen05 --tile 128x64 --type bf16
descriptor --idesc --kind tf32 --m 64 --n 24
descriptor --idesc 0x08c00490
descriptor --zero-mask --m 64 --n 128 --set skip_span=3 --set use_span=4 --json
descriptor --tile 3x3 --type bf16
tensormap --type bf16 --box 64,64 --swizzle 128B
tensormap --type u8 --box 32,8,2 --interleave 16B --json
tensormap --type f32 --box 3
scales nvfp4 scale_a
scales nvfp4 scale_a --line 3
scales tcgen05.mma.cta_group::2.kind::mxf4nvf4.scale_a --m 256 --scale-vec 4 --line 0-1
swizzle claims
swizzle table help
swizzle table SWIZZLE_128B --extent 64,8 --bits 16
swizzle draw SWIZZLE_64B --extent 64,8 --bits 16
swizzle apply 3,4,3 0..9
swizzle table SWIZZLE_128B --extent 64,8 --bits 16 --json
swizzle fit none.csv
swizzle apply 9,9,9 1
cost --table
cost --table --json
cost ldmatrix.x4
cost wgmma.*.m64n256k16.* --json
cost m16n8k16 bf16 f32 --with ldmatrix.x4
cost cp.async.bulk.*
cost m16n8k16 f16 --arch h100
numerics m16n8k16 f16 f32 --length 4096
numerics m16n8k16 f16 f32 --header
numerics m16n8k16 f16 f32 --a 1,2 --b 3,4 --c 5
diff --numerics sm_80 sm_89
diff --numerics sm_80 sm_90 --json
diff sm_70 sm_75
kernel gemm --arch sm_90 --type bf16
kernel gemm --arch sm_90 --type e4m3 --size 512x512x512 --json
kernel gemm --arch sm_80 --type s8
kernel gemm --arch sm_90 --type f16 --multiply mma
kernel gemm --arch sm_90 --type bf16 --tile 128x256x64 --cluster 2
kernel gemm --arch sm_80 --type f16 --stages 99
kernel gemm --arch sm_80 --type nope
kernel gemm --arch sm_90 --type tf32 --explain 9 9 9
where wgmma.m64n8k16.f16.b_smem --row 3 --col 5 --swizzle 128 --json
where wgmma.mma_async.m64n8k16.f32.f16.f16.a_smem --byte 7
where tcgen05.mma.cta_group::1.kind::f16.d --row 70 --col 200 --ld 32x32b.x32
where tcgen05.ld.16x256b.x4.d --lane 3 --i 5
trace wgmma.mma_async.m64n8k16.f32.f16.f16 --row 3 --col 5 --swizzle 128
trace tcgen05.mma.cta_group::1.kind::f16 --row 3 --col 5
trace mma.sp.m16n8k32.row.col.f32.f16.f16.f32 --row 3 --col 2 --selector 1
fit none.csv
fit
compare --cost
compilers wmma.m8n8k4.*
merge none
audit none
read none
pages --check none
site -o none/none/none
run nope --method live
run --arch sm_80 --family nope
doctor x
show x
show m16n8k16
where
where m16n8k16 a
convert a b
emit m16n8k16 --to nope
lower m16n8k16
why-not m16n8k16
causal
swizle"""
CALLS = [
    ["fragment", ["{0}"], {}],
    ["fragment", ["{0}"], {"arch": "sm_80"}],
    ["fragment", ["{0}"], {"selector": 0}],
    ["convert", ["{0}", "{0}"], {}],
    ["reduce", ["{0}"], {"over": "row", "op": "max"}],
    ["compare", ["{0}"], {}],
    ["banks", ["{0}"], {"tile": [64, 64], "access": ["ldmatrix.x4"]}],
    ["path", ["{0}"], {"tile": "64x64"}],
]
CALLS_OF_FORM = [["instruction", ["{0}"], {}], ["numerics", ["{0}"], {}], ["cost", ["{0}"], {}]]
SINGLE_CALLS = [
    ["descriptor", [], {"tile": "128x64", "kind": "bf16"}],
    ["tensormap", [], {"kind": "bf16", "box": [64, 64]}],
    ["swizzle", ["SWIZZLE_128B"], {}],
    ["kernel", ["sm_80", "f16"], {}],
    ["kernel", ["sm_90", "e4m3"], {"tile": [128, 128, 128]}],
    ["fragment", [1], {}],
    ["nothing", [], {}],
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--at", metavar="COMMIT")
    parser.add_argument("--only", default="", help="questions that contain this text")
    options = parser.parse_args()
    if options.at:
        sys.exit(beside(options.at, options.only))
    asked = questions() if options.write else [row["question"] for row in kept()]
    asked = [question for question in asked if options.only in question]
    answers = ask(asked, ROOT)
    if options.write:
        write(zip(asked, answers, strict=True))
        print(len(asked), "answers written")
        return
    then = {row["question"]: row for row in kept()}
    other = [q for q, answer in zip(asked, answers, strict=True) if row_of(q, answer) != then[q]]
    print(*other, f"{len(other)} of {len(asked)} questions have another answer", sep="\n")
    sys.exit(bool(other))


def questions():
    """Every question, each once: command lines, and calls of Python as JSON."""
    lines = [line for text in (SINGLE,) for line in split(text)]
    operands = [name for form in split(FORMS) for name in operands_of(form)]
    for template in split(OF_FORM):
        lines += [template.format(form) for form in split(FORMS)]
    for template in split(OF_OPERAND):
        lines += [template.format(operand) for operand in operands]
    lines += [template.format(arch) for template in split(OF_ARCH) for arch in ARCHS]
    from tcprobe import emit
    from tcprobe.cli import main as group

    lines += [template.format(name) for template in split(OF_FORMAT) for name in emit.names()]
    lines += [f"{name} --help" for name in group.list_commands(None)]
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        options = [max(parameter.opts, key=len) for parameter in command.params if parameter.opts[0][:2] == "--"]
        words = "mma.m16n8k16.row.col.f32.bf16.bf16.f32.a"
        lines += [f"{name} {words} {option} {value}" for option in options for value in ("", "x")]
    lines += documented()
    calls = [json.loads(json.dumps(call).replace("{0}", name)) for call in CALLS for name in operands]
    calls += [json.loads(json.dumps(call).replace("{0}", name)) for call in CALLS_OF_FORM for name in split(FORMS)]
    lines = [line for line in lines if not re.match(r"(run|doctor|site|pages|verify|audit|compilers|read) ?$", line)]
    return [*dict.fromkeys(lines), *dict.fromkeys(json.dumps(call) for call in [*calls, *SINGLE_CALLS])]


def split(text):
    """The lines of a text that are not empty."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def operands_of(form):
    """The names of what an instruction multiplies, moves or reads."""
    from tcprobe.isa import inventory

    row = inventory.instructions().get(form)
    names = [fragment.id for fragment in row.fragments] if row else []
    if form.startswith(("wgmma", "tcgen05.mma")):
        names += [f"{form}.{operand}" for operand in OPERANDS if operand.endswith("smem") or "tcgen05" in form]
    return names


def documented():
    """The commands of the README and of docs/ that write no file."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    found = [line for page in pages for line in re.findall(r"^\$ tcprobe (.*)", page.read_text("utf-8"), re.MULTILINE)]
    return [line for line in found if not re.match("(run|merge|pages|site|verify|doctor|audit|read)|.* -o", line)]


def ask(asked, root):
    """(exit code, output, errors) of each question to the code below `root`, in order; on two cores at once."""
    halves = [asked[i::2] for i in range(2)]
    with ThreadPoolExecutor(2) as pool:
        answered = list(pool.map(lambda half: server(half, root), halves))
    answers = {
        q: answer for half, given in zip(halves, answered, strict=True) for q, answer in zip(half, given, strict=True)
    }
    return [answers[question] for question in asked]


def server(asked, root):
    """The answers of one process, which forks for each question."""
    with tempfile.TemporaryDirectory() as folder:
        hidden = {
            "CUDA_VISIBLE_DEVICES": "",
            "CUDA_HOME": "",
            "PYTHONPATH": str(root),
            "COLUMNS": "100",
            "HOME": folder,
        }
        environment = {**os.environ, **hidden, "PATH": "/usr/bin:/bin", "PYTHONHASHSEED": "0"}
        command = [sys.executable, str(SERVER), str(root)]
        done = subprocess.run(
            command, input=json.dumps(asked), capture_output=True, text=True, check=True, cwd=folder, env=environment
        )
    return [tuple(answer) for answer in json.loads(done.stdout)]


def row_of(question, answer):
    """The row of answers.csv."""
    code, output, errors = answer
    digests = [hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16] for text in (output, errors)]
    return {"question": question, "exit": str(code), "output": digests[0], "errors": digests[1]}


def kept():
    """The rows of answers.csv."""
    with KEPT.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def write(answered):
    """answers.csv, whole."""
    with KEPT.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.DictWriter(lines, ["question", "exit", "output", "errors"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(row_of(question, answer) for question, answer in answered)


def beside(commit, only):
    """Print the questions that a commit's code answers differently, with both answers; how many there are."""
    asked = [row["question"] for row in kept() if only in row["question"]]
    with tempfile.TemporaryDirectory() as folder:
        raw = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
            archive.extractall(folder, filter="data")
        then = ask(asked, Path(folder))
    different = [(q, a, b) for q, a, b in zip(asked, then, ask(asked, ROOT), strict=True) if a != b]
    for question, old, new in different:
        print(f"== {shlex.join([question]) if question[0] == '[' else question}: exit {old[0]}, now {new[0]}")
        for a, b in zip(old[1:], new[1:], strict=True):
            changes = difflib.unified_diff(a.splitlines(), b.splitlines(), "then", "now", lineterm="", n=0)
            print(*[line[:160] for line in list(changes)[2:12]], sep="\n")
    print(f"{len(different)} of {len(asked)} questions have another answer")
    return bool(different)


if __name__ == "__main__":
    main()
