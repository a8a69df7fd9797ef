"""What ARCHITECTURE.md says of a line or a file more, done in a copy of the package: nothing else is changed there.

An arch, a GPU, a form, a stated cost, a stated arithmetic are a line each; a format and a reference a file each. The
commands then answer or refuse in words, and the suite's own laws hold over the copy. A contribution is some files of
results.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from machine_code import TOOLS, needs_tools

import tcprobe
from tcprobe.cli import main
from tcprobe.isa.arch import arch
from tcprobe.probes import experiments
from tcprobe.probes.experiment import Context, kernels, ptx_hash
from tcprobe.run.backend import Device
from tcprobe.run.emulator import Emulator
from tcprobe.run.runner import conclude, provenance
from tcprobe.store.cell import cell
from tcprobe.store.choose import default
from tcprobe.store.results import Results

HERE = Path(__file__).parent
PACKAGE = Path(tcprobe.__file__).parent
ADDING = HERE / "data" / "adding"
ARCHITECTURE = (HERE.parent / "ARCHITECTURE.md").read_text()
LINES = {
    "isa/archs.csv": "130,Feynman,9.6,227,100,,none stated",
    "isa/gpus.csv": "130,F100,f100",
    "isa/rows/mma.csv": "mma,m16n8k64,row.col,bf16.bf16,f32.f32,,,,1,,sm_90:7.8,an invented section",
    "references/costs.csv": "an invented table,mma.m16n8k16.*,sm_130,F100,latency,17,cycles,latency,,1.0",
    "references/numerics.csv": "F100,sm_130,f16|bf16,16,27,-133,Invented (table 3),mma,,,,",
}
# one that computes, one that stores, one that multiplies
OPCODES = """\
INEW,compute,,,,,,,integer,,alu,2,,,an invented source
STNEW,store,,shared,,none,memory,,shared-stores,request,lsu,4,,,an invented source
QNEW,multiply,,,,,"multiply|16816:4,2,4",warp,multiplies,,tensor,17,,,an invented source
"""
DOUBLES = """

@means("INEW")
def _invented(on: Domain[Any], form: Form, registers: Registers) -> dict[int, Any]:
    return {0: on.shift_left(on.read(form.operands[1], registers), 1)}
"""
FILES = {"emit/corners.py": ADDING / "emit/corners.py", "references/handbook.py": ADDING / "references/handbook.py"}
KNOWN = "mma.m16n8k16.row.col.f32.bf16.bf16.f32"
NEW = "mma.m16n8k64.row.col.f32.bf16.bf16.f32"
TCGEN05 = "tcgen05.mma.cta_group::1.kind::f16"
REFUSED = 2  # exit code


def copied(root):
    """Copy the package, and what is compiled of it where that lies apart: Python takes seconds for all of it."""
    shutil.copytree(PACKAGE, root / "tcprobe")
    if prefix := os.environ.get("PYTHONPYCACHEPREFIX"):
        compiled, copies = (Path(prefix, *place.parts[1:]) for place in (PACKAGE, root / "tcprobe"))
        if compiled.is_dir():
            shutil.copytree(compiled, copies, dirs_exist_ok=True)


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    """A folder with a copy of the package that has every line and file more, and the published tables."""
    root = tmp_path_factory.mktemp("grown")
    copied(root)
    (root / "results").symlink_to(PACKAGE.parent / "results")
    lines = {name: f"{line}\n" for name, line in LINES.items()}
    for name, text in (lines | {"isa/opcodes.csv": OPCODES, "sass/meaning.py": DOUBLES}).items():
        with (root / "tcprobe" / name).open("a") as file:
            file.write(text)
    for name, file in FILES.items():
        shutil.copy(file, root / "tcprobe" / name)
    return root


def environment(root):
    """Of a process that imports the copy of tcprobe; the suite's own workers are not its."""
    return {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")} | {"PYTHONPATH": str(root)}


def ask(root, *lines):
    """What the copy answers: (exit code, stdout, stderr) of each line; an error of its own would be code 70."""
    done = subprocess.run(
        [sys.executable, ADDING / "ask_all.py"],
        input=json.dumps([line.split() for line in lines]),
        capture_output=True,
        text=True,
        check=True,
        env=environment(root),
        cwd=ADDING,
    )
    return json.loads(done.stdout)


def laws(root, *tests):
    """Run tests of the suite over the copy."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(str(HERE / test) for test in tests)],
        capture_output=True,
        text=True,
        check=False,
        env=environment(root),
        cwd=root,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert re.search("[1-9][0-9]* passed", done.stdout)


# what ARCHITECTURE.md says


def test_architecture_names_these_places():
    _, _, where = ARCHITECTURE.partition("## Where to go")
    for name in LINES:
        assert f"`{name}`" in where.replace("FAMILY", "mma"), name
    for name in FILES:
        assert f"`{Path(name).parent}/NAME.py`" in where, name
    for name in ("probes", "store/kinds", "ask"):  # done by tests/test_adding.py
        assert re.search(f"`{name}/[A-Z]+.py`", where), name
    assert "tcprobe merge FOLDER --contributor NAME --results results" in where


def test_every_path_that_architecture_names_is_there():
    """From the package or the repository; a word in capitals stands for any name."""
    named = set(re.findall(r"`([\w./*-]+(?:/|\.(?:py|csv|md|toml)))`", ARCHITECTURE))
    packages = set(re.findall(r"^\| `(\w+)` \|", ARCHITECTURE, re.M))
    assert len(named) > 20
    for name in named:
        pattern = re.sub(r"[A-Z]{3,}(?=\.(py|csv)|_|$)", "*", name)
        bases = ("", "tcprobe", *(f"tcprobe/{package}" for package in packages))
        assert [found for base in bases for found in (HERE.parent / base).glob(pattern)], name
    inside = {path.name.removesuffix(".py") for path in (HERE.parent / "tcprobe").iterdir() if path.name[0] != "_"}
    assert {name for name in packages if name[0].islower()} == inside - {"py.typed"}


# an arch and its GPU


def test_an_arch_and_its_gpu_are_a_line_each(grown):
    """By both names every question is answered, or refused in words."""
    questions = {
        "list --arch {} --json": 0,
        "why-not wgmma.m64n64k16.f32.bf16.bf16 --arch {}": 0,
        f"why-not {TCGEN05} --arch {{}}": 0,
        f"show {KNOWN}.a --arch {{}}": 0,
        f"where {KNOWN}.d --row 3 --col 5 --arch {{}}": 0,
        f"trace {KNOWN} --row 3 --col 5 --arch {{}}": 0,
        f"cost {KNOWN} --arch {{}}": 0,
        f"cost {TCGEN05} --arch {{}}": REFUSED,
        f"numerics {KNOWN} --arch {{}}": 0,
        f"emit {KNOWN}.a --to cuda --arch {{}}": 0,
        "kernel gemm --type bf16 --arch {}": 0,
        f"lower {KNOWN} --arch {{}}": REFUSED,
        "diff sm_90 {}": REFUSED,
        "diff sm_90 {} --numerics": 1,  # its stated fraction bits are others
        "diff --cuda /nowhere --cuda /nowhere --arch {}": REFUSED,
        "compare --arch {}": REFUSED,
    }
    asked = [question.format(name) for name in ("sm_130", "F100") for question in questions]
    answers = dict(zip(asked, ask(grown, *asked), strict=True))
    for line, (code, out, err) in answers.items():
        wanted = questions[line.replace("F100", "{}").replace("sm_130", "{}")]
        if line.startswith("lower") and "no ptxas" in err:  # not installed
            wanted = code
        assert (code, "Traceback" in err) == (wanted, False), (line, err)
        assert "Error: " in err if code == REFUSED else out, line
    by_arch, by_gpu = ([a[1] for line, a in answers.items() if name in line] for name in ("sm_130", "F100"))
    assert by_arch == by_gpu
    assert "on sm_130, documented only" in answers[f"show {KNOWN}.a --arch sm_130"][1]
    assert "sm_130 (Feynman) does not run" in answers["why-not wgmma.m64n64k16.f32.bf16.bf16 --arch sm_130"][1]
    assert "for sm_130a" in answers["kernel gemm --type bf16 --arch F100"][1]


def test_laws_of_archs_hold_over_it(grown):
    laws(
        grown,
        "test_every_arch.py::test_every_arch_has_what_every_other_has[sm_130]",
        "test_every_arch.py::test_sparse_multiplies_are_emulated_where_their_code_is_not_theirs[sm_130]",
        "test_arch_names.py::test_every_spelling_of_an_arch[sm_130]",
        "test_arch_names.py::test_what_is_shown_of_gpus_is_understood",
        "test_targets.py::test_a_target_has_all_that_those_before_it_have",
        "test_facts.py::test_tables_are_text_that_git_shows",
    )


@pytest.mark.full
def test_all_laws_of_lines_hold_over_them(grown):
    names = "every_arch arch_names targets inventory facts stated costs numerics_command names pins plugins ptx probes"
    laws(grown, *(f"test_{name}.py" for name in names.split()))


# a form, stated numbers, a format, a reference


def test_a_form_is_listed_and_its_absence_has_a_reason(grown):
    listed, shown, result, why, accumulator, lacking = ask(
        grown,
        f"list {NEW}* --json",
        f"show {NEW}.a --arch sm_90",
        f"emit {NEW}.d --to json --arch sm_90",
        f"why-not {NEW} --arch sm_90",
        f"show {NEW}.d --arch sm_90",
        f"why-not {NEW} --arch sm_80",
    )
    assert {(f["operand"], f["registers"], f["min_arch"]) for f in json.loads(listed[1])} == {
        ("a", 16, "sm_90"),
        ("b", 8, "sm_90"),
        ("c", 4, "sm_90"),
        ("d", 4, "sm_90"),
    }
    assert (shown[0], "no table of" in shown[2], "why-not" in shown[2]) == (REFUSED, True, True)
    assert "prevents" in why[1]
    assert "not measured on sm_90 in the published tables (nor documented)" in why[1]
    assert "documented only" in accumulator[1]  # PTX ISA states an accumulator for every k
    assert json.loads(result[1])[0]["id"] == f"{NEW}.d"
    assert "target sm_90" in lacking[1]


def test_laws_of_forms_hold_over_it(grown):
    laws(grown, "test_inventory.py")


def test_stated_numbers_are_a_line_each(grown):
    cost, arithmetic = ask(grown, f"cost {KNOWN} --arch f100", f"numerics {KNOWN} --arch f100 --json")
    assert "stated for sm_130: F100: latency 17 cycles (an invented table)" in cost[1]
    found = json.loads(arithmetic[1])
    assert (found["status"], found["fraction_bits"], found["exponent_floor"]) == ("published", 27, -133)
    assert "Invented (table 3)" in found["evidence"]


def test_a_format_and_a_reference_are_a_file_each(grown):
    fragment = "mma.m16n8k16.row.col.f32.f16.f16.f32.d"
    formats, emitted, compared = ask(
        grown,
        f"emit {fragment} --to nothing",
        f"emit {fragment} --to corners --arch sm_90",
        f"compare {fragment} --arch sm_90",
    )
    assert "known: corners, csv" in formats[2]
    assert f"{fragment} (0, 0) (15, 7)" in emitted[1]
    assert "handbook" in compared[1]


# opcodes of machine code

RENAMED = r"s/\bIABS\b/INEW/; s/\bSTS\b/STNEW/; s/\bHMMA\b/QNEW/"
LOOP = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 count) .reqntid 32 {
.reg .b64 %out; .reg .b32 %r<9>; .reg .b32 %n; .reg .f32 %f<4>; .reg .pred %p; .shared .align 16 .b8 s[16384];
ld.param.u64 %out, [out]; ld.param.u32 %n, [count];
mov.u32 %r1, %tid.x; sub.s32 %r2, %r1, 64; abs.s32 %r2, %r2;
shl.b32 %r2, %r2, 6; mov.u32 %r3, s; add.u32 %r2, %r2, %r3;
mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0; mov.u32 %r4, %r1;
LOOP:
.pragma "nounroll";
st.shared.u32 [%r2], %n;
mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r4,%r1,%r1,%r1}, {%r4,%n}, {%f0,%f1,%f2,%f3};
sub.u32 %n, %n, 1; xor.b32 %r8, %r4, %n; abs.s32 %r4, %r8;
setp.ne.u32 %p, %n, 0;
@%p bra LOOP;
st.global.v4.f32 [%out], {%f0,%f1,%f2,%f3};
ret;
}
"""


@needs_tools
@pytest.mark.skipif(sys.platform == "win32", reason="what renames opcodes is a shell's script")
def test_an_opcode_is_a_line_and_at_most_one_function(grown, tmp_path, monkeypatch):
    """A disassembler that prints three opcodes that nobody has: lanes store 64 bytes apart, and by INEW twice that."""
    (tmp_path / "k.ptx").write_text(LOOP)
    (tmp_path / "nvdisasm").write_text(f'#!/bin/sh\n"{TOOLS.nvdisasm}" "$@" | sed "{RENAMED}"\n')
    (tmp_path / "nvdisasm").chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    questions = [[command, str(tmp_path / "k.ptx")] for command in ("check", "predict", "read")]
    checked, predicted, read = (CliRunner().invoke(main, words).output for words in questions)
    assert "STNEW" not in checked
    assert "no price of STNEW" in predicted
    assert "no matrix instruction" in read
    checked, predicted, read = (out for _, out, _ in ask(grown, *map(" ".join, questions)))
    assert "STNEW takes 32 wavefronts where 1 would do" in checked
    assert "undecided" not in checked
    assert re.search(r"1 QNEW.16816.F32: +tensor 17\n", predicted)
    assert re.search(r"1 STNEW: +lsu 4\n", predicted)
    assert re.search(r"1 INEW: +alu 2\n", predicted)
    assert re.search(r"^k +sm_90 +1 +0 ", read, re.M)
    assert "sm_90 QNEW.16816.F32 x 1" in read


# a contribution

THEIRS = ("mma.m16n8k16.row.col.f32.bf16.bf16.f32", "mma.m8n8k4.row.col.f64.f64.f64.f64", "wmma.m16n16k16.a.row.f16")
A100 = Device(0, "NVIDIA A100-SXM4-80GB", "sm_80", "580.65.06", "13.0", "NVRTC 13.0")


def contribution(folder):
    """What `tcprobe run` saves on such a GPU, here the emulator with the tables that are known: three files."""
    for name in THEIRS:
        experiment = experiments()[name]
        known = {fragment.id: cell(fragment, "sm_80", default()).table for fragment in experiment.fragments}
        emulator, launches = Emulator(known), experiment.launches()
        assert emulator.load(kernels(experiment)) == {}
        reading = experiment.decode(launches, emulator.run(launches))
        context = Context(arch("sm_80"), lambda fragment: None)
        made = conclude(experiment, reading, context, "live", provenance(A100, ptx_hash(kernels(experiment))))
        Results(folder).write(made)
    return folder


@pytest.fixture(scope="module")
def contributed(tmp_path_factory):
    """A copy of the package and of the published tables, to which a stranger's three files were merged."""
    root = tmp_path_factory.mktemp("contributed")
    copied(root)
    shutil.copytree(PACKAGE.parent / "results", root / "results")
    theirs = contribution(root / "theirs")
    ((code, out, err),) = ask(root, f"merge {theirs} --contributor somebody --results {root / 'results'}")
    assert (code, err) == (0, ""), out
    return root


def test_a_contribution_is_merged_and_answers(contributed):
    (shown,) = ask(contributed, f"show {THEIRS[0]}.a --arch sm_80")
    assert "NVIDIA A100-SXM4-80GB" in shown[1]
    (run,) = (contributed / "results" / "runs").iterdir()
    assert len(list((run / "sm_80" / "live").glob("*.json"))) == len(THEIRS)
    slow = f"from tcprobe.cli import main; main(['show', '{THEIRS[0]}.a'], standalone_mode=False)\nimport sys\n"
    slow += "assert 'numpy' not in sys.modules"  # what is published is trusted, its runs too
    subprocess.run(
        [sys.executable, "-c", slow], check=True, capture_output=True, env=environment(contributed), cwd=HERE
    )


@pytest.mark.full
def test_pages_follow_a_contribution_and_no_law_is_broken(contributed):
    results = contributed / "results"
    stale, written, kept = ask(contributed, *(f"pages {way} --results {results}" for way in ("--check", "", "--check")))
    assert (stale[0], written[0], kept[0]) == (1, 0, 0)
    assert "README.md" in written[1] + written[2]
    laws(contributed, *(f"test_{name}.py" for name in ("published", "tools", "compare", "show")))
