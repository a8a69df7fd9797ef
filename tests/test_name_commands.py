"""Names in commands: words without quotes, archs among them, and what is said of those that mean nothing or several."""

import json
import shlex

import pytest
from click.testing import CliRunner
from command import tcprobe

from tcprobe.cli import main
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.names import resolve
from tcprobe.store import kinds


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "shfl.sync.bfly.b32",
            "exchanges between lanes) is a PTX instruction, but holds no matrix. See `tcprobe convert m16n8k16",
        ),
        ("cp.async.bulk", "--fill tma"),
        ("tcgen05.alloc", "synchronisation and resources"),
    ],
)
def test_what_ptx_has_beside_is_named(name, words):
    assert words in tcprobe("show", name, code=2).stderr


def test_what_is_said_of_names_that_mean_nothing():
    for name, words in {
        "mma m16n8k64 e4m3 a": "Add sparse for mma.sp.m16n8k64.row.col.f32.e4m3.e4m3.f32.a",
        "wmma m16n16k16 foo": "Not known: 'foo'. Without foo it would mean wmma.mma.",
        "mma m16n8k16 bf16 f16": "Without f16 it would mean mma.m16n8k16.row.col.f32.bf16.bf16.f32",
        "foo": "Not known: 'foo'. See `tcprobe list`",
        "wmma 16x16x16 row 3": "Give numbers with --row and --col",
        "HMMA.884": "'HMMA.884' is only one of the opcodes",
        "HMMA.16816.F99": "no known multiply compiles to 'HMMA.16816.F99'",
    }.items():
        assert words in tcprobe("where", *name.split(" "), "--lane", 0, "--strict", code=2).stderr


def test_run_names_the_kinds_of_findings_among_the_families():
    known = ", ".join(["wgmma.sp", *kinds.names(), "tma"])
    assert known in tcprobe("run", "--family", "bank", code=2).stderr


def test_why_not_of_many_says_each_reason_once():
    text = tcprobe("why-not", "mma", "m16n8k32", "fp8", "--arch", "a100").stdout
    assert len(text.splitlines()) == 1
    assert "target sm_89" in text
    assert len(tcprobe("why-not", "mma", "m16n8k32", "fp8", "--arch", "a100", "--json").stdout.splitlines()) > 20
    four = tcprobe("why-not", "SM80_16x8x16_F32F16F16F32_TN", "--arch", "turing").stdout
    assert four.count("needs target sm_80") == 1
    here = tcprobe("why-not", "mma.m16n8k16.row.col.f32.e4m3.e4m3.f32.a", "--arch", "sm_120").stdout
    assert "on a GPU of sm_120 measures it" in here or "measured" in here


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_colour_and_width(columns, monkeypatch):
    """NO_COLOR on what would take colour, and drawings within COLUMNS."""
    monkeypatch.setenv("COLUMNS", str(columns))
    asked = ["show", "mma.m16n8k8.row.col.f32.tf32.tf32.f32.a", "--arch", "h100", "--full"]
    coloured = CliRunner().invoke(main, asked, color=True).stdout
    monkeypatch.setenv("NO_COLOR", "1")
    plain = CliRunner().invoke(main, asked, color=True).stdout
    assert "\x1b[" in coloured
    assert "\x1b[" not in plain
    drawn = plain.split("lane -> row,col")[1].split("measured:")[0].splitlines()[1:]
    assert max(map(len, drawn)) <= columns
    for command in ([], ["show"], ["reduce"], ["convert"]):
        text = CliRunner().invoke(main, [*command, "--help"], terminal_width=columns).stdout
        prose = text.partition("Examples:")[0]  # commands to paste are never broken below 80
        assert max(map(len, prose.splitlines())) <= columns
        assert max(map(len, text.splitlines())) <= max(columns, 80)


def test_one_command_answers_what_a_person_types():
    done = tcprobe("where", *["accumulator", "wmma", "16x16x16", "f32", "--arch", "v100", "--row", "3", "--col", "9"])
    assert "[3][9]: lane 9 i 3 (register 3, bits 0..31)" in done.stdout
    assert "matches 2 fragments, all with this table on sm_70" in done.stderr
    asked = ["HMMA.16816.F32", "a", "--row", 3, "--col", 9, "--json"]
    assert [h["lane"] for h in json.loads(tcprobe("where", *asked).stdout)["holders"]] == [12]
    assert (
        "mma.m16n8k16.row.col.f32.bf16.bf16.f32"
        in tcprobe("trace", "mma", "m16n8k16", "bf16", "--row", 0, "--col", 0).stdout
    )
    shown = tcprobe("show", "matrix_a", "half", "16x16x16", "row_major", "--arch", "V100").stdout
    assert shown.startswith("wmma.m16n16k16.a.row.f16 on sm_70")


A, D = (f"mma.m16n8k16.row.col.f32.bf16.bf16.f32.{operand}" for operand in "ad")

MULTIPLY = A.removesuffix(".a")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("words", "quoted"),
    [
        (["path", "m16n8k16", "bf16", "A", "--tile", "64x64"], ["path", A, "--tile", "64x64"]),
        (["load", "m16n8k16", "bf16", "A", "h100"], ["load", A, "--arch", "h100"]),
        (
            ["banks", "m16n8k16", "A", "bf16", "--tile", "16x64", "--with", "ldmatrix.x4"],
            ["banks", A, "--tile", "16x64", "--with", "ldmatrix.x4"],
        ),
        (["lower", "mma", "m16n8k16", "bf16", "--arch", "sm_80,sm_90"], ["lower", MULTIPLY, "A100", "H100"]),
        (["show", "m16n8k16", "bf16", "f32", "D"], ["show", D]),
        (["where", "m16n8k16", "bf16", "A", "RTX", "4090", "--lane", 0], ["where", A, "--arch", "4090", "--lane", 0]),
        (
            ["trace", "m16n8k16", "bf16", "--row", 0, "--col", 0, "--arch", "sm_80"],
            ["trace", MULTIPLY, "sm_80", "--row", 0, "--col", 0],
        ),
        (["convert", "m16n8k16", "bf16", "f32", "D", "m16n8k16", "bf16", "A", "--json"], ["convert", D, A, "--json"]),
        (["convert", "D", "m16n8k16", "bf16", "f32", "A", "m16n8k16", "bf16", "--json"], ["convert", D, A, "--json"]),
        (["reduce", "m16n8k16", "bf16", "f32", "D", "--over", "row"], ["reduce", D, "--over", "row"]),
        (["emit", "m16n8k16", "bf16", "A", "--to", "csv"], ["emit", A, "--to", "csv"]),
        (["why-not", "m16n8k16", "bf16", "A", "v100"], ["why-not", A, "--arch", "sm_70"]),
        (["list", "m16n8k16", "bf16", "A"], ["list", A]),
        (["diff", "sm_80", "sm_90", "m16n8k16", "bf16", "A"], ["diff", "sm_80", "sm_90", A]),
        (["compare", "m16n8k16", "bf16", "A", "a100"], ["compare", A, "--arch", "sm_80"]),
    ],
)
def test_words_without_quotes_in_every_command(words, quoted):
    assert tcprobe(*words).stdout == tcprobe(*quoted).stdout


def test_archs_said_twice_or_where_one_is_needed():
    assert "2 times" in tcprobe("where", A, "h100", "--arch", "sm_80", "--lane", 0, code=2).stderr
    assert "one arch" in tcprobe("emit", A, "--to", "csv", "--arch", "sm_80,sm_90", code=2).stderr


def test_metadata_without_a_selector_gives_every_one():
    e = "mma.sp.m16n8k16.row.col.f32.f16.f16.f32.e"
    lines = tcprobe("where", e, "--row", 3, "--col", 5, "--json").stdout.splitlines()
    assert [json.loads(line)["selector"] for line in lines] == [0, 1, 2, 3]
    assert tcprobe("where", e, "--row", 3, "--col", 5, "--selector", 2, "--json").stdout.strip() == lines[2]
    assert tcprobe("trace", e.removesuffix(".e"), "--row", 3, "--col", 5).stdout.count("selector") == 4


def test_what_means_several_things_gives_commands_to_paste():
    asked = ("where", "m16n8k16", "A", "h100", "--row", 0, "--col", "0-3", "--strict")
    first, *commands = tcprobe(*asked, code=2).stderr.splitlines()
    assert first.endswith("Give more of the name:")
    assert len(commands) == 3
    for command in commands:
        assert command.endswith("--row 0 --col 0-3 --arch h100")
        assert tcprobe(*shlex.split(command)[1:]).stdout


def commands_that_take_names():
    """(name, whether one is needed) of every command whose argument is names of fragments or instructions."""
    for command in main.list_commands(None):
        for argument in main.get_command(None, command).params:
            if argument.name in ("fragment", "instruction", "patterns", "names"):
                yield command, argument.required


@pytest.mark.parametrize(("command", "needed"), list(commands_that_take_names()))
def test_an_empty_name_or_a_gpu_alone_is_no_name(command, needed):
    options = {"emit": ["--to", "csv"], "path": ["--tile", "64x64"], "diff": ["sm_80", "sm_90"]}.get(command, [])
    for empty in ("", " "):
        assert "Error: " in tcprobe(command, *options, empty, code=2).stderr
    if needed:
        assert "Missing argument" in tcprobe(command, *options, "h100", code=2).stderr


ELSEWHERE = [
    f"{row.id}.{operand.name}" for row in inventory.of_family("tcgen05") if row.multiplies for operand in row.elsewhere
]


@pytest.mark.parametrize("name", ELSEWHERE[::9])
def test_an_operand_outside_registers_is_named_by_its_place(name):
    """It was called unknown, and suggested itself."""
    with pytest.raises(UsageError, match=r"is in (tensor|shared) memory, so there is no table of registers") as refused:
        resolve(name).some_fragments  # noqa: B018
    assert "Did you mean" not in str(refused.value)


def _error(asked):
    """The error of what is asked, None where there is none."""
    try:
        asked()
    except UsageError as refused:
        return refused
    return None


def test_no_name_is_suggested_for_itself(sample):
    """Whatever is asked of a name that exists."""
    names = [*inventory.instructions(), *inventory.fragments()]
    for name in (*sample(names, 120), *ELSEWHERE):
        for ask in ("some_fragments", "some_instructions", "some_multiplies"):
            refused = _error(lambda: getattr(resolve(name), ask))  # noqa: B023
            assert name not in getattr(refused, "choices", ()), ask


@pytest.mark.parametrize(
    ("name", "arch", "words"),
    [
        (
            "i8.d",
            "sm_103",
            "needs target sm_100a (PTX ISA 8.6, CUDA 12.8) or sm_110a (PTX ISA 9.0, CUDA 13.0), which sm_103",
        ),
        ("i8.d", "sm_100", "nothing prevents it: tcgen05.mma.cta_group::1.kind::i8.d is in tensor memory"),
        ("mxf4.scale_a", "sm_90", "which sm_90 (Hopper) does not run"),
        ("f16.a", "sm_110", "`tcprobe show` says where its elements are"),
    ],
)
def test_why_not_explains_operands_in_tensor_memory(name, arch, words):
    asked = ["why-not", f"tcgen05.mma.cta_group::1.kind::{name}", "--arch", arch]
    said, plain = CliRunner().invoke(main, asked), CliRunner().invoke(main, [*asked, "--json"])
    assert (said.exit_code, plain.exit_code) == (0, 0)
    answer = json.loads(plain.output)
    assert words in answer["words"]
    assert answer["allowed"] == ("nothing prevents" in answer["words"])
    assert answer["id"] == asked[1]
