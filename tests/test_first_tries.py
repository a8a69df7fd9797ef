"""What a new user types first: tasks, a command each; the examples of every help; the page of commands."""

import csv
import importlib.util
import re
import shlex
import shutil
import sys
from pathlib import Path

import click
import emulated_bench
import fatbins
import fleet_gpu
import machine_code
import numpy as np
import pytest
from click.testing import CliRunner
from crafted import filled

from tcprobe.ask import find
from tcprobe.cli import examples, hints, main
from tcprobe.cli.shell import HEADINGS
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.question import naming

ROOT = Path(__file__).parent.parent
FAILED = 5  # of the tries, at most; 3 of the 30 that were kept aside failed when they were first run
# a task, what a person types first, what the answer says; the public question it is from; whether it was kept aside,
# and first run when the commands were done
TRIES = list(csv.DictReader((ROOT / "tests" / "data" / "first_tries.csv").open()))
COLUMNS = 80
CODE = (
    "emit",
    "convert",
    "reduce",
    "kernel",
    "load",
    "path",
    "trace",
    "merge",
    "site",
    "pages",
    "run",
    "doctor",
    "fit",
    "tensormap",
)


def said(words):
    return CliRunner(env={"COLUMNS": str(COLUMNS)}).invoke(main, shlex.split(words), prog_name="tcprobe")


def flat(text):
    """Without line breaks and capitals."""
    return " ".join(text.lower().split())


def test_tasks_are_answered_at_the_first_try(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(TRIES) >= 150
    failed = {}
    for one in TRIES:
        done = said(one["command"])
        allowed = (0, 1) if one["command"].startswith("agree ") else (0,)  # 1: they differ
        if done.exit_code not in allowed or flat(one["answer"]) not in flat(done.output):
            failed[one["task"]] = (one["command"], done.exit_code, done.output[:300])
    assert len(failed) <= FAILED, failed


def made(folder):
    """What examples name: a table, offsets, PTX, results of somebody, two toolkits."""
    (folder / "mine.csv").write_text(said("emit m16n8k16 bf16 f32 a --to csv").stdout)
    (folder / "offsets.csv").write_text("row,col,offset\n0,0,0\n0,1,1\n1,0,2\n1,1,3\n")
    (folder / "order.json").write_text((ROOT / "examples" / "orders" / "chain.json").read_text())
    for name, shape in (("a", (2, 4096)), ("b", (4096, 3))):
        np.save(folder / f"{name}.npy", np.ones(shape, np.float32))
    (folder / "kernel.ptx").write_text(fatbins.ptx())
    (folder / "examples").symlink_to(ROOT / "examples")
    emulated_bench.written(folder)
    filled(folder / "theirs")


# whole sites, archs and packages: tests of their own make them
SLOW = (
    "site -o pages",
    "compare m16n8k16 bf16 f32",
    "compilers 'wmma.m8n8k4.*'",
    "compilers --cuda cuda-12.9 --cuda cuda-13.0 'wmma.m8n8k4.*'",
    "audit tensor-layouts --json",
)
EXAMPLES = [
    pytest.param(name, words, marks=[pytest.mark.full] if words in SLOW else [], id=words)
    for name, both in examples.EXAMPLES.items()
    for words in both
]
NEED_TOOLS = ("ablate", "lower", "read", "check", "predict", "run", "compilers", "numerics")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("descriptor wgmma m64n128k16 bf16", "a tile needs --tile LINESxK and --type or --instruction."),
        ("numerics wgmma m64n128k32 e4m3 --strict", "  tcprobe numerics wgmma.mma_async.m64n128k32.f32.e4m3.e4m3"),
        ("kernel gemm --arch rtx4090 --type fp8", "type fp8 is e4m3 or e5m2: choose one."),
        ("banks --address 'threadIdx.x * 128' --with ld.shared.b32", "the one variable is lane, 0 to 31."),
        ("banks ldmatrix.x4 --tile 64x64 --type f16 --swizzle 'Swizzle<3,3,3>'", "<3,3,3> of elements is sw:3,4,3."),
        ("banks ldmatrix.x4 --tile 64x64 --type f16 --swizzle 'Swizzle<3,2,3>'", "M must be at least 4 here."),
        ("cost HMMA.16816.F32.BF16 --arch a100", "; it is on sm_90."),
        ("where m16n8k16 f16 A 3 9 --strict", "Give numbers with --row and --col, or with --lane and --i."),
    ],
)
def test_a_first_try_that_fails_says_what_to_type(command, words):
    done = said(command)
    assert (done.exit_code, words in " ".join(done.stderr.split("\n")) or words in done.stderr) == (2, True), (
        done.stderr
    )


def test_find_knows_every_command_and_names_options_that_exist():
    """Each line of find.csv is a command that can be typed; each command has one; what nobody knows is refused."""
    known = dict(leaves(main))
    written = [each for each in find.answers() if not each.command.endswith(" --help")]
    for each in written:
        words = shlex.split(each.command)[1:]
        path = next(name for size in (2, 1) if (name := tuple(words[:size])) in known)
        own = {option for p in known[path].params for option in p.opts}
        assert {word for word in words if word.startswith("--")} <= own, each
    assert {each.name for each in find.answers()} == set(main.list_commands(click.Context(main)))
    assert said("find zygomorphic").exit_code == 2
    assert all(find.find(each.phrase)[0] == each for each in written)


def test_words_of_a_topic_name_nothing():
    """What is left out of a name must be no word of any name."""
    ids = [one.id for one in inventory.fragments().values()] + list(inventory.instructions())
    named = {part for id_ in ids for part in re.split(r"[.:_]+", id_.lower())}
    assert not naming.TOPICS & named
    assert "row =" in said("show the TV layout of m16n8k16 bf16 f32 a").stdout
    assert said("show layout").exit_code == 2


ARABIC = str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩")
ZEROS = ",".join("0" * 16)
WITH_DIGITS = [
    *(one["command"] for one in TRIES if not one["command"].startswith("find ")),
    f"numerics m16n8k16 f16 f32 --a 0x3,{ZEROS[2:]} --b {ZEROS}",
    f"numerics m16n8k16 f16 f32 --a 10,{ZEROS[2:]} --b {ZEROS}",
    f"numerics m16n8k16 s8 --a 10,{ZEROS[2:]} --b {ZEROS}",
    "where tcgen05 accumulator --row 70 --col 3 --ld 32x32b.x32",
    "reduce m16n8k16 f16 f32 d --mask 'row > 3' --fill 25",
]


@pytest.mark.sampled(31)
@pytest.mark.parametrize("command", WITH_DIGITS)
def test_digits_of_other_scripts_are_no_numbers(command, tmp_path, monkeypatch):
    """Python reads them wherever it is asked for a number: no word of a command may be understood with them."""
    monkeypatch.chdir(tmp_path)
    words = shlex.split(command)
    for position, word in enumerate(words[1:], 1):
        for number in re.finditer("[0-9]+", word) if words[position - 1] != "-o" else ():
            arabic = word[: number.start()] + number[0].translate(ARABIC) + word[number.end() :]
            assert said(shlex.join([*words[:position], arabic, *words[position + 1 :]])).exit_code == 2, arabic


def test_no_pattern_reads_digits_of_other_scripts():
    """\\d means those too. Machine code and its tools write ASCII."""
    patterns = {path: path.read_text() for path in (ROOT / "tcprobe").rglob("*.py") if path.parent.name != "sass"}
    assert [path.name for path, text in patterns.items() if "\\d" in text] == []


# a mistake in a command, and what its hint must name; what it must not name follows after !
MISTAKES = [
    ("reduce m16n8k16 f16 f32 d --row", "Did you mean --over row? !--op"),
    ("reduce m16n8k16 f16 f32 d --op row", "Did you mean --over row?"),
    ("reduce m16n8k16 f16 f32 d --max", "Did you mean --op max? !--mask"),
    ("where m16n8k16 f16 f32 a --svg", "See `tcprobe emit --to svg`, !--sbo"),
    ("show m16n8k16 f16 f32 a --tile 64x64", "`tcprobe path --tile`"),
    ("kernel gemm --tiles 128x128x64", "Did you mean --tile?"),
    ("reduce m16n8k16 f16 f32 d --mask acausal", "'acausal' is compared with nothing !is a number"),
    ("descriptor --instruction tcgen05 mma kind::f16", "needs quotes !holds every field"),
    ("descriptor --instruction tcgen05.mma.cta_group::1.kind::f16 --tile 64x64", "give --tcgen05 !`tcgen05`"),
    ("scales tcgen05 nvfp4", "kind::mxf4nvf4 scale_vec::4X scale_a"),
    ("show m16n8k16 f16 f32 a 3 9", "f16.f16.f32.a --row 3 --col 9` takes numbers !Give numbers with"),
]


@pytest.mark.parametrize(("command", "words"), MISTAKES)
def test_a_hint_names_what_is_meant(command, words):
    done = said(command)
    wanted, _, unwanted = words.partition(" !")
    assert done.exit_code == 2
    assert wanted in done.stderr
    assert not unwanted or unwanted not in done.stderr


def test_scales_that_a_name_says_are_not_asked_for():
    done = said("scales tcgen05 nvfp4 scale_a cta_group::1 --json")
    assert (done.exit_code, '"vector": 4' in done.stdout) == (0, True)


def leaves(command, path=()):
    """Every command, and its words."""
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            yield from leaves(command.get_command(click.Context(command), name), (*path, name))
    else:
        yield path, command


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("path", "command"), list(leaves(main)), ids=[" ".join(path) for path, _ in leaves(main)])
def test_every_hint_names_options_that_the_command_has(path, command):
    """For each option of any command, given to each command that lacks it: what is suggested outside backticks is its
    own; and for each topic of the hints."""
    every = {option for _, one in leaves(main) for p in one.params for option in p.opts if option.startswith("--")}
    own = {option for p in command.params for option in p.opts}
    ctx = click.Context(command, parent=click.Context(main))
    for option in every - own:
        advice = re.sub("`[^`]*`", "", hints.instead_of(option, ctx))
        assert set(re.findall("--[a-z0-9-]+", advice)) <= own, (option, advice)
    for topic in hints.HINTS:
        error = UsageError("", topic, id="ID", arch="sm_90", folder="F", type="bf16", form="ID")
        advice = re.sub("`[^`]*`", "", hints.hint(error, ctx))
        assert set(re.findall("--[a-z0-9-]+", advice)) <= own, (topic, advice)


@pytest.mark.full
@pytest.mark.parametrize(("name", "words"), EXAMPLES)
def test_examples_of_help_run(name, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if name in NEED_TOOLS and not machine_code.TOOLS:
        pytest.skip("no ptxas and nvdisasm here")
    made(tmp_path)
    if name == "ablate":
        emulated_bench.shows(monkeypatch)
    if name == "contribute":
        fleet_gpu.shows(monkeypatch, "sm_75", fleet_gpu.FORMS[:1])
    if "cuda-12.9" in words:
        root = Path(machine_code.TOOLS.ptxas).resolve().parent.parent
        for at in ("cuda-12.9", "cuda-13.0"):
            (tmp_path / at).symlink_to(root)
    done = said(words)
    if "cuda-13.0" in words and "is given twice" in done.output:
        return  # both are the one toolkit that is installed here
    allowed = (0, 1, 3) if words.startswith(("verify", "run --method live", "audit")) else (0, 1)
    assert done.exit_code in allowed, done.output
    assert words.split()[0] == name
    assert done.output.strip()


def test_every_command_has_two_examples_in_its_help_and_a_heading():
    commands = main.list_commands(click.Context(main))
    assert sorted(name for names in HEADINGS.values() for name in names) == commands == sorted(examples.EXAMPLES)
    assert all(heading.endswith("commands:") for heading in HEADINGS)
    for name in commands:
        text = CliRunner().invoke(main, [name, "--help"], terminal_width=200).stdout.replace("\\\n", " ")
        assert len(re.findall(rf"^ +tcprobe {name} ", text.partition("Examples:")[2] + " ", re.MULTILINE)) >= (
            2 if name not in ("doctor", "list", "verify") else 1
        ), name
    listed = CliRunner().invoke(main, ["--help"]).stdout
    assert [line for line in listed.splitlines() if line.endswith("commands:")] == list(HEADINGS)


def test_alone_it_prints_six_tasks():
    done = CliRunner().invoke(main, [])
    assert done.exit_code == 0
    assert done.stdout.count("  tcprobe ") == len(examples.TASKS) == 6
    assert set(examples.TASKS.values()) <= {re.sub(r" \\\n +", " ", words) for words in examples.TASKS.values()}
    for words in examples.TASKS.values():
        assert f"tcprobe {words.split()[0]}" in done.stdout


@pytest.mark.parametrize("words", ["show", "list", "--help", "", "lower --help", "kernel gemm --help"])
def test_no_line_is_wider_than_the_terminal(words):
    text = CliRunner(env={"COLUMNS": "80"}).invoke(main, shlex.split(words), terminal_width=80).output
    assert max(map(len, text.splitlines())) <= COLUMNS


def documented():
    """Commands of the README and docs whose answer is not code and no data."""
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        for command in re.findall(r"```console\n\$ tcprobe (.*)", page.read_text("utf-8")):
            if command.split()[0] not in CODE and "--json" not in command and not re.search("--(help|full)", command):
                yield command


def is_data(line):
    """Code, paths and ids, which are never broken: a word alone is wider than the line, or the line is code."""
    return max(map(len, line.split()), default=0) > COLUMNS - 8 or re.search(r"[;{}]|//|0x[0-9a-f]{8}|  .*  .*  ", line)


@pytest.mark.full
@pytest.mark.parametrize("command", sorted(set(documented())))
def test_answers_of_documented_commands_fit_a_terminal(command, monkeypatch):
    monkeypatch.chdir(ROOT)
    done = CliRunner(env={"COLUMNS": "80", "PATH": "", "CUDA_HOME": None}).invoke(main, shlex.split(command))
    assert [line for line in done.stdout.splitlines() if len(line) > COLUMNS and not is_data(line)] == []


def test_a_wrong_order_of_parts_is_put_right():
    """The name with the very same parts, and the command to paste."""
    done = said("show wmma.mma.m16n16k16.row.row.f16.f32 --arch sm_80")
    assert done.exit_code == 2
    assert "wmma.mma.row.row.m16n16k16.f16.f32" in done.stderr
    assert "\n  tcprobe show wmma.mma.row.row.m16n16k16.f16.f32 --arch sm_80\n" in done.stderr


def test_pages_made_from_the_program_are_as_it_says():
    spec = importlib.util.spec_from_file_location("reference", ROOT / "tools" / "reference.py")
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    for path, text in reference.MADE_FILES.items():
        assert path.read_text("utf-8") == text(), f"{path.name} is stale: python tools/reference.py"


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 160


@pytest.mark.skipif(sys.platform == "win32", reason="shells of Unix")
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_made_and_documented(shell):
    assert f"_TCPROBE_COMPLETE={shell}_source tcprobe" in (ROOT / "docs" / "usage.md").read_text("utf-8")
    if shell == "bash" and not shutil.which("bash"):
        pytest.skip("no bash, whose version the script depends on")
    found = CliRunner().invoke(main, [], env={"_TCPROBE_COMPLETE": f"{shell}_source"}, prog_name="tcprobe")
    assert "_TCPROBE_COMPLETE" in found.stdout


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("shwo m16n8k16 bf16 f32 a --lanes", "  tcprobe show m16n8k16 bf16 f32 a --lanes"),
        ("show m16n8k16 bf16 f23 a --lanes", "  tcprobe show mma.m16n8k16.row.col.f32.bf16.bf16.f32.a --lanes"),
        ("swizzle appl 3,4,3 1024", "  tcprobe swizzle apply 3,4,3 1024"),
        ("swizzle propose", "  tcprobe banks --help"),
        ("kernel attention", "  tcprobe kernel --help"),
    ],
)
def test_a_typo_gets_a_line_to_paste(typed, line):
    done = said(typed)
    assert (done.exit_code, line in done.stderr.splitlines()) == (2, True), done.stderr
    assert said(line.removeprefix("  tcprobe ")).exit_code == 0


def test_a_command_like_no_other_is_only_refused():
    done = said("frobnicate")
    assert (done.exit_code, "there is no command" in done.stderr, "Did you mean" in done.stderr) == (2, True, False)
