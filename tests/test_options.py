"""Every option of every command, given what means nothing: a mistake in the call, said on one line, nothing written."""

import itertools
import re
from pathlib import Path

import click
import fatbins
import fleet_gpu
import pytest
from click.testing import CliRunner
from crafted import MMA, filled

from tcprobe.cli import main
from tcprobe.question.options import (
    ElementType,
    MapSwizzle,
    Named,
    NonEmptyText,
    Number,
    Numbers,
    Seconds,
    Sides,
    SwizzleType,
)

EXAMPLES = Path(__file__).parent.parent / "examples" / "orders"
A, D = "wmma.m16n16k16.a.row.f16", f"{MMA}.d"
STORE = [str(EXAMPLES.parent / "emulate" / f"store.{end}") for end in ("ptx", "json")]
MULTIPLY = "mma.m16n8k16.row.col.f32.f16.f16.f32"
CODES = ["run", A, "--arch", "sm_80", "--method", "sass"]
SLOT = ["--operand", "a", "--lane", "0", "--i", "0"]
TILE = ["banks", "--tile", "8x8", "--type", "f16", "--with", "cp.async.16"]
# what each command is asked beside the option in question
ASKED = {
    "run": CODES,
    "ablate": ["ablate", "no.ptx", "--launch", "no.py"],
    "reduce": ["reduce", f"{MULTIPLY}.d", "--fill", "0"],
    "fit": ["fit"],
    "compare": ["compare", A],
    "list": ["list"],
    "show": ["show", A],
    "why-not": ["why-not", A, "--arch", "sm_70"],
    "where": ["where", A, "--row", "0"],
    "verify": ["verify"],
    "trace": ["trace", MULTIPLY, "--row", "0", "--col", "0"],
    "convert": ["convert", f"{MULTIPLY}.d", f"{MULTIPLY}.a"],
    "emit": ["emit", A],
    "swizzle fit": ["swizzle", "fit", "no.csv"],
    "swizzle draw": ["swizzle", "draw", "no.csv"],
    "swizzle table": ["swizzle", "table", "SWIZZLE_128B", "--extent", "64,8"],
    "banks": TILE,
    "cost": ["cost", MULTIPLY],
    "numerics": ["numerics", "mma.m16n8k16.row.col.f32.f16.f16.f32"],
    "order": ["order", "--file", "no.json"],
    "diff": ["diff", "sm_70", "sm_80", A],
    "merge": ["merge", "no"],
    "lower": ["lower", MULTIPLY],
    "read": ["read", "no.ptx"],
    "check": ["check", "no.ptx"],
    "emulate": ["emulate", STORE[0], "--launch", STORE[1]],
    "predict": ["predict", "no.ptx"],
    "audit": ["audit", "wmma.m8n8k4.c.f64.csv"],
    "compilers": ["compilers", "wmma.m8n8k4.*", "--arch", "sm_80"],
    "doctor": ["doctor"],
    "contribute": ["contribute"],
    "pages": ["pages"],
    "site": ["site"],
    "descriptor": ["descriptor", "--tile", "128x64", "--type", "bf16"],
    "tensormap": ["tensormap", "--type", "bf16", "--tile", "64x64"],
    "path": ["path", f"{MULTIPLY}.a", "--tile", "64x64"],
    "load": ["load", f"{MULTIPLY}.a", "--ld", "64"],
    "scales": ["scales", "nvfp4 scale_a"],
    "agree": ["agree", "tma:bf16,64x64,128B", "cp.async:bf16,64x64,128B"],
    "plan": ["plan", "--arch", "sm_90", "--tile", "128x128x64", "--type", "bf16"],
    "layouts": ["layouts"],
    "kernel gemm": ["kernel", "gemm", "--arch", "sm_80", "--type", "f16"],
}
NOWHERE = ("", "a\0b", "\ud800")
NO_NUMBERS = ("", " ", "nan", "inf", "-1", "1_0", "\u0663", "1e3", "0x3", "9" * 30, "9" * 6000, "\x1b[31m", "3\n4")
NO_SECONDS = (*NO_NUMBERS, "0", "0.5", "1e999", "100000")
WRONG = {
    Named: NOWHERE,
    NonEmptyText: ("", " "),
    Number: NO_NUMBERS,
    Numbers: NO_NUMBERS,
    Seconds: NO_SECONDS,
    ElementType: ("", " "),
    SwizzleType: (*NO_NUMBERS, "48", "3,4", "sw:4,4,3", "3,4,3>", "SWIZZLE_48B", "5,60,9"),
    MapSwizzle: (*NO_NUMBERS, "48", "3,4", "sw:4,4,3", "3,4,3>", "SWIZZLE_48B", "5,60,9"),
    Sides: (*NO_NUMBERS, "64,", "-1,8", "1,1,1,1,1,1"),
}


def commands(group=main, path=()):
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


OPTIONS = [(name, p) for name, command in commands() for p in command.params if isinstance(p, click.Option)]
VALUED = [(name, p) for name, p in OPTIONS if not p.is_flag and not isinstance(p.type, click.Choice)]


def refused(*arguments):
    """What is said of a mistake in the call: one short line, all of it printable."""
    done = CliRunner().invoke(main, list(arguments))
    assert done.exit_code == 2, (arguments, done.output)
    said = done.stderr.strip().splitlines()[-1]
    assert said.startswith("Error: ")
    assert len(said) < 1100
    assert said.isprintable()
    return said


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("name", "option"), VALUED, ids=lambda x: x if isinstance(x, str) else x.opts[-1])
def test_what_means_nothing_is_a_mistake_in_the_call(name, option, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kinds = [kind for kind in WRONG if isinstance(option.type, kind)]
    for word in {word for kind in kinds for word in WRONG[kind]} or {"", "64", "64,8,8", "-1,8", "nan"}:
        refused(*ASKED[name], option.opts[-1], word)
    assert list(tmp_path.iterdir()) == []


def test_zero_is_a_number_where_it_means_something():
    """Where it does not it is refused as such, or by what it is of, with what there is: it never means the default."""
    counted = {"--device", "--seed", "--selector", "--product", "--cta", "--bit", "--warp", "--explain", "--columns"}
    bytes_ = {"--lbo", "--sbo", "--base-offset", "--start", "--base"}
    sizes = {"--m", "--n", "--scale-vec"}
    least = {o.opts[0] for _, command in commands() for o in command.params if getattr(o.type, "min", None) == 0}
    assert least == counted | bytes_ | sizes
    for name, size in itertools.product(("where", "trace", "show"), sorted(sizes)):
        form = "tcgen05.mma.cta_group::1.kind::mxf8f6f4" + ("" if name == "trace" else ".scale_a")
        element = [] if name == "show" else ["--row", "0", "--col", "0"]
        assert " has " in refused(name, form, size, "0", *element)


def test_paths_that_are_arguments_have_a_name_too():
    for words in (("swizzle", "fit"), ("merge",), ("fit",)):
        assert "an empty name" in refused(*words, "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["where", A, "--row", "0", "--product", "1"], "product 1 is outside 0 to 0"),
        (["where", A, "--lane", "0", "--product", "0"], "--product needs --row and --col"),
        (["trace", MULTIPLY, "--row", "0", "--col", "0", "--product", "1"], "product 1 is outside 0 to 0"),
        (["trace", MULTIPLY, *SLOT, "--product", "0"], "--product needs --row and --col"),
        ([*CODES, "--device", "0"], "--device selects a live GPU"),
        (
            ["swizzle", "draw", __file__, "--base", "0", "--bits", "8"],
            "--stride, --base and --arch apply to a layout's name",
        ),
        (["swizzle", "draw", "SWIZZLE_32B", "--extent", "8,8", "--table", "2"], "--table 2 needs a file"),
        (["numerics", MULTIPLY, "--header", "--json"], "--json does not apply to --header"),
    ],
)
def test_an_option_that_would_change_nothing_is_a_mistake_in_the_call(words, said):
    assert said in refused(*words)


def test_products_where_there_are_several():
    text = (
        CliRunner().invoke(main, ["where", D, "--row", "0", "--col", "0", "--product", "3", "--arch", "sm_70"]).stdout
    )
    assert text.startswith("D[0][0] of product 3: ")
    assert "product 4 is outside 0 to 3" in refused("where", D, "--row", "0", "--product", "4")


@pytest.mark.full
def test_the_fewest_that_are_asked_of_each_are_no_mistake(tmp_path, monkeypatch, sample):
    """So it is the option that is refused above, not what stands beside it."""
    monkeypatch.chdir(tmp_path)
    fleet_gpu.shows(monkeypatch, "sm_75", fleet_gpu.FORMS[:1])
    filled(tmp_path / "no")
    (tmp_path / "no.ptx").write_text(fatbins.ptx())
    (tmp_path / "no.csv").write_text("row,col,offset\n0,0,0\n0,1,1\n")
    (tmp_path / "no.json").write_text((EXAMPLES / "chain.json").read_text())
    columns = CliRunner().invoke(main, ["emit", "wmma.m8n8k4.c.f64", "--to", "csv"]).stdout
    (tmp_path / "wmma.m8n8k4.c.f64.csv").write_text(columns)
    needs = {
        "emit": ["--to", "python"],
        "swizzle draw": ["--bits", "16"],
        "swizzle table": ["--bits", "16"],
        "pages": ["--results", "no"],
        "site": ["--results", "no"],
        "lower": ["--arch", "sm_80"],
    }
    for name, words in sample(ASKED.items(), 4):
        if name not in ("run", "verify", "ablate"):  # these need a GPU
            done = CliRunner().invoke(main, [*words, *needs.get(name, [])])
            assert done.exit_code in (0, 1), (name, done.output)


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("where tcgen05.mma.cta_group::1.kind::f16.d --lane 1 --i 0", "--i"),
        ("where tcgen05.mma.cta_group::1.kind::f16.d --row 1 --col 0 --base-offset 1", "--base-offset"),
        ("where tcgen05.mma.cta_group::1.kind::f16.a --row 1 --col 0 --ld 32x32b.x1", "--ld"),
        ("where m16n8k16 bf16 f32 a --row 1 --col 0 --column 2", "--column"),
        ("where m16n8k16 bf16 f32 a --row 1 --col 0 --base-offset 2", "--base-offset"),
        ("trace m16n8k16 bf16 f32 --row 1 --col 0 --a-in shared", "--a-in"),
        ("trace tcgen05.mma.cta_group::1.kind::f16 --row 1 --col 0 --i 0", "--i"),
        ("show m16n8k16 bf16 f32 a --scale-vec 2", "--scale-vec"),
    ],
)
def test_an_option_of_another_place_is_named_as_it_is_written(words, option):
    """Of registers, shared memory and tensor memory each has options of its own."""
    result = CliRunner().invoke(main, words.split())
    assert result.exit_code == 2
    named = re.findall(r"--[a-z][a-z_-]*", result.stderr)
    command = main.get_command(None, words.split()[0])
    assert option in named
    assert set(named) <= {spelled for parameter in command.params for spelled in parameter.opts}
