"""Errors of the library say what is wrong, in its parameters' names; what to type is the command line's to say."""

import ast
import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tcprobe.cli import main
from tcprobe.cli.hints import HINTS, in_options

ROOT = Path(__file__).parent.parent / "tcprobe"


def raised():
    """(file, words) of every text in a raise below the command line."""
    for path in sorted(ROOT.rglob("*.py")):
        file = path.relative_to(ROOT)
        if file.parts[0] == "cli":
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Raise) and node.exc is not None:
                texts = (part.value for part in ast.walk(node.exc) if isinstance(part, ast.Constant))
                yield from ((file.as_posix(), text) for text in texts if isinstance(text, str))


@pytest.mark.full
def test_every_topic_has_its_hint():
    topics = [topic for file, words in raised() for topic in HINTS if topic == words]
    assert set(HINTS) >= set(topics)
    assert {"no code", "no cost", "address maps", "function names", "two archs"} <= set(topics)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["path", "mma.m16n8k16.row.col.f32.f16.f16.f32.a", "--tile", "64x64", "--ld", "3"],
            "--ld 3: lines are 64 elements long",
        ),
        (["path", "mma.m16n8k16.row.col.f32.f16.f16.f32.a", "--tile", "64x64", "--type", "s8"], "--type s8:"),
        (["banks", "--tile", "3", "--with", "ldmatrix.x4", "--type", "f16"], "--tile '3' is not ROWSxCOLS"),
        (["banks", "--tile", "64x64", "--with", "ld.shared.b32@x", "--type", "f16"], "--with 'ld.shared.b32@x'"),
        (["swizzle", "table", "SWIZZLE_128B", "--extent", "8,8", "--stride", "3"], "--stride 3: SWIZZLE_128B"),
        (["kernel", "gemm", "--arch", "sm_90", "--type", "f16", "--cluster", "3"], "--cluster 3: use 1 or 2 blocks"),
        (["descriptor", "--idesc", "--kind", "f16"], "give --d-type, f16 or f32"),
        (["tensormap", "--type", "f16"], "give --tile, which may take several boxes, or --box"),
        (["trace", "mma.m8n8k4.row.col.f32.f16.f16.f32", "--row", "0", "--col", "0"], "choose one with --product"),
    ],
)
def test_the_command_line_names_options(words, said):
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert "`ld`" not in done.stderr


def test_words_that_are_no_parameter_stay():
    ctx = click.Context(main.get_command(click.Context(main), "path"))
    assert in_options("`contiguous` row, `kind` s8, `nothing` and `tcprobe show`", ctx) == (
        "--global row, --type s8, `nothing` and `tcprobe show`"
    )
    assert in_options("`ld` 3", None) == "`ld` 3"


def test_errors_of_commands_name_options_that_there_are():
    """Every option in a raise of the command line is one of some command."""

    def options(command, ctx):
        if isinstance(command, click.Group):
            for name in command.list_commands(ctx):
                yield from options(command.get_command(ctx, name), ctx)
        yield from (option for p in command.params for option in p.opts)

    known = set(options(main, click.Context(main)))
    for path in sorted((ROOT / "cli").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            texts = ast.walk(node.exc) if isinstance(node, ast.Raise) and node.exc is not None else ()
            words = " ".join(
                part.value for part in texts if isinstance(part, ast.Constant) and isinstance(part.value, str)
            )
            assert set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*[a-z0-9]", words)) <= known, (path.name, words)
