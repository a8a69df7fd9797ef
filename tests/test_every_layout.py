"""Every command that takes a fragment's name, with every kind of a layout's text: an answer, or what is wrong."""

import shlex

import click
import pytest
from click.testing import CliRunner

from tcprobe import emit
from tcprobe.ask.layouts import layouts
from tcprobe.cli import main
from tcprobe.isa.arch import ARCHS

MULTIPLY = "mma.m16n8k16.row.col.f32.f16.f16.f32"
ODD = [  # no whole warps, one thread, one element, gaps, copies, registers that are not full, types of all widths
    "(8,4):(4,1) over 8x4",
    "(1,4):(1,1) over 4x1",
    "(48,4):(4,1) over 48x4",
    "(33,2):(2,1) over 33x2",
    "(1,1):(0,0) over 1x1",
    "(32,1):(1,0) over 32x1 of f16",
    "(32,3):(3,1) over 32x3 of f16",
    "(128,8):(8,1) over 32x32",
    "((2,4,4),2):((0,8,2),1) over 4x8",
    "Sw<0,3,3> o 0 o (8,64):(72,1) over 16x64",
    *(f"((4,8),(2,2,2)):((32,1),(16,8,128)) over 16x16 of {kind}" for kind in ("e2m1", "e2m3", "f16", "f64")),
]
TEXTS = [*((each.example, shlex.split(each.options)) for each in layouts()), *((text, []) for text in ODD)]
BANKS = ["banks", "*", "--type", "f16"]
# each way to ask a command; * is the text, whose tile follows where the command takes it
WAYS = {
    "show": [["show", "*", *view] for view in ([], ["--full"], ["--json"], ["--svg"], ["--lanes"], ["--elements"])],
    "where": [["where", "*", *what] for what in (["--row", "0", "--col", "0"], ["--lane", "0"])],
    "trace": [["trace", "*", "--row", "0", "--col", "0"]],
    "emit": [["emit", "*", "--to", name] for name in (*emit.names(), "numerics")],
    "convert": [
        ["convert", "*", "*"],
        ["convert", "*", f"{MULTIPLY}.a"],
        ["convert", f"{MULTIPLY}.d", "*"],
        ["convert", "*", "stmatrix", "--type", "f16"],
    ],
    "reduce": [["reduce", "*", *how] for how in (["--over", "row"], ["--over", "col"], ["--mask", "row >= col"])],
    "load": [["load", "*", *how] for how in ([], ["--ld", "64"], ["--global", "col"], ["--code"])],
    "path": [["path", "*"], ["path", "*", "--type", "f16"], ["path", "* ", "--tile", "64x64"]],
    "banks": [["banks", "*"], BANKS, [*BANKS, "--with", "ldmatrix.x4"], [*BANKS, "--with", "ld.shared.b32"]],
    "compare": [["compare", "*"]],
    "diff": [["diff", "sm_80", "sm_90", "*"]],
    "compilers": [["compilers", "*", "--arch", "sm_80"]],
    "cost": [["cost", "*"]],
    "numerics": [["numerics", "*"]],
    "lower": [["lower", "*"]],
    "list": [["list", "*"]],
    "why-not": [["why-not", "*", "--arch", "sm_70"]],
    "scales": [["scales", "*"]],
    "verify": [["verify", "*"]],
    "run": [["run", "*"]],
    "order": [["order", "*"]],
    "descriptor": [["descriptor", "*"]],
    "agree": [
        ["agree", "*", "tma:f16,64x64,128B"],
        *(["agree", f"{side}:*,64x64,plain", "tma:f16,64x64,128B"] for side in ("ldmatrix", "st.shared")),
    ],
}


def tiles(command):
    """Whether a command has --tile."""
    return any("--tile" in option.opts for option in main.get_command(click.Context(main), command).params)


@pytest.mark.parametrize("command", WAYS)
def test_every_command_answers_or_refuses_every_text(command, sample):
    asked = [(way, text, options) for way in WAYS[command] for text, options in TEXTS]
    for way, text, options in sample(asked, 47):
        words = [word.replace("*", text) if word.strip() == "*" or ":*," in word else word for word in way]
        words += options if tiles(command) and "--tile" not in words else []
        done = CliRunner().invoke(main, words)
        assert done.exit_code in ((0, 1, 2) if command == "agree" else (0, 2)), (words, done.output[-300:])
        assert done.exit_code == 0 or "Error: " in done.stderr or done.stdout, words
        assert "internal error" not in done.output


def test_every_command_that_takes_a_name_is_asked():
    context = click.Context(main)
    taking = {
        name
        for name in main.list_commands(context)
        for argument in main.get_command(context, name).params
        if isinstance(argument, click.Argument)
        and any(word in (argument.metavar or "") for word in ("FRAGMENT", "INSTR"))
    }
    assert taking <= set(WAYS)


@pytest.mark.parametrize("text", ["(8,4):(4,1) over 8x4", "(1,4):(1,1) over 4x1", "(48,4):(4,1) over 48x4"])
def test_what_moves_registers_needs_whole_warps(text):
    tile = text.rpartition(" over ")[2]
    for words in (
        ["load", text],
        ["path", text, "--tile", tile],
        ["reduce", text, "--over", "row"],
        ["convert", text, text],
    ):
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 2
        assert "threads, no whole warps: a multiple of 32 is needed" in done.stderr


def test_a_text_is_emitted_for_every_arch_and_a_tile_for_those_of_its_multiply():
    text = CliRunner().invoke(main, ["emit", "(32,4):(4,1) over 8x16", "--to", "cuda"]).stdout
    assert all(f"namespace {arch.name} {{" in text for arch in ARCHS)
    done = CliRunner().invoke(main, ["emit", f"{MULTIPLY}.d", "--warps", "2x4", "--tile", "128x128x64", "--to", "cuda"])
    assert done.exit_code == 0, done.output
    assert "namespace sm_80 {" in done.stdout
    assert "namespace sm_70 {" not in done.stdout


def test_two_layouts_do_not_share_a_name():
    both = ["((4,8),4):((1,4),32) over 16x8", "(4,(8,4)):(1,(4,32)) over 16x8"]
    done = CliRunner().invoke(main, ["emit", *both, "--to", "cuda"])
    assert done.exit_code == 2
    assert "would both be called n4_8_4_1_4_32_over_16x8" in done.stderr
    assert CliRunner().invoke(main, ["emit", *both, "--to", "json"]).exit_code == 0
