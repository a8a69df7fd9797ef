"""What a command line gives twice, or gives in vain: an option with two values, a namespace that no code gets."""

import json

import click
import pytest
from click.testing import CliRunner

from tcprobe.cli import main

D = "mma.m16n8k16.row.col.f32.f16.f16.f32.d"
CODED = (
    ["reduce", D, "--over", "row"],
    ["reduce", D, "--mask", "row >= col"],
    ["convert", D, D.removesuffix("d") + "a"],
    ["convert", D, "stmatrix"],
    ["convert", D, "stmatrix", "--type", "f16"],
)


def _commands(group, ctx, path=()):
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if isinstance(command, click.Group):
            yield from _commands(command, ctx, (*path, name))
        else:
            yield (*path, name), command


def test_no_option_with_one_value_is_given_twice():
    """Of every command: the last one does not win silently."""
    ctx, tried = click.Context(main), 0
    for path, command in _commands(main, ctx):
        for option in command.params:
            if not isinstance(option, click.Option) or option.multiple or option.is_flag:
                continue
            name = max(option.opts, key=len)
            done = CliRunner().invoke(main, [*path, *[name, *["1"] * option.nargs] * 2])
            assert done.exit_code == 2, (path, name)
            assert f"Error: {name} is given 2 times, but takes one value." in done.stderr
            tried += 1
    assert tried > 200


def test_what_may_stand_several_times_may():
    done = CliRunner().invoke(main, ["banks", "--tile", "64x64", "--type", "f16", "--with", "ldmatrix.x4", "--json"])
    twice = CliRunner().invoke(
        main,
        ["banks", "--tile", "64x64", "--type", "f16", "--with", "ldmatrix.x4", "--with", "ldmatrix.x2", "--json"],
    )
    assert (done.exit_code, twice.exit_code) == (0, 0)
    assert len(json.loads(twice.stdout)["accesses"]) == 1 + len(json.loads(done.stdout)["accesses"])


def test_a_field_of_set_is_given_once():
    words = "descriptor --idesc --kind i8 --a-type u8 --b-type u8 --m 128 --n 64 --set sparse=1 --set sparse=0"
    done = CliRunner().invoke(main, words.split())
    assert (done.exit_code, done.stderr) == (2, "Error: --set gives sparse twice.\n")


@pytest.mark.parametrize("words", CODED, ids=" ".join)
def test_a_namespace_is_that_of_the_code_in_json_too(words):
    plain, inside = (
        json.loads(CliRunner().invoke(main, [*words, *more, "--json"]).stdout) for more in ([], ["--namespace", "a::b"])
    )
    assert "namespace" not in plain["code"]
    assert "namespace a::b {" in inside["code"]
    assert {**plain, "code": inside["code"]} == inside
    wrong = CliRunner().invoke(main, [*words, "--namespace", "1a", "--json"])
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert "'1a'" in wrong.stderr


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["4000004000010000"], "give 0x4000004000010000, or 0xe35fb81854f10 if it is decimal."),
        (["c0de"], "give 0xc0de."),
        (["--idesc", "08400490"], "give 0x08400490, or 0x802e6a if it is decimal."),
        (["--zero-mask", "--m", "32", "--n", "64", "302"], "give 0x302, or 0x12e if it is decimal."),
    ],
)
def test_a_value_says_that_it_is_hexadecimal(words, advice):
    done = CliRunner().invoke(main, ["descriptor", *words])
    assert done.exit_code == 2
    assert f"{words[-1]} does not say that it is hexadecimal: {advice}" in done.stderr


@pytest.mark.parametrize(
    ("words", "value"),
    [(["4611686293305360384"], "0x4000004000010000"), (["--idesc", "--kind", "f16", "138412176"], "0x08400090")],
)
def test_more_digits_than_hexadecimal_ones_are_decimal(words, value):
    done = CliRunner().invoke(main, ["descriptor", *words])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(value)
