"""What a command's options can do, Python can: data/python_options.csv has a parameter for each, or why not."""

import csv
import inspect
import re
from pathlib import Path

import click
import pytest

import tcprobe
from tcprobe import api, question
from tcprobe.api import functions
from tcprobe.cli import main
from tcprobe.question import declare

ROWS = list(csv.DictReader((Path(__file__).parent / "data" / "python_options.csv").read_text("utf-8").splitlines()))
EVERYWHERE = {"--arch", "--results", "--only", "--json", "--help", "--output"}


def options(command, path=()):
    """(command, option) of every command."""
    ctx = click.Context(main)
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            yield from options(command.get_command(ctx, name), (*path, name))
        return
    for parameter in command.params:
        if isinstance(parameter, click.Option) and (spelled := max(parameter.opts, key=len)) not in EVERYWHERE:
            yield " ".join(path), spelled


def by_construction():
    """(command, option) of the parameters of functions that `import tcprobe` has, which are the options."""
    for name in question.names():
        question.load(name)
    for name, function in declare.QUESTIONS.items():
        first = name.partition(" ")[0]
        if first in tcprobe.__all__ and getattr(functions, first, None) is function:
            yield from ((name, row[1].flag) for row in declare._declared(function) if hasattr(row[1], "flag"))


def test_every_option_has_its_row_and_every_row_its_option():
    assert [(row["command"], row["option"]) for row in ROWS] == sorted(
        ((row["command"], row["option"]) for row in ROWS), key=lambda pair: pair[0]
    )
    assert sorted((row["command"], row["option"]) for row in ROWS) == sorted({*options(main)} - {*by_construction()})


def callable_of(dotted):
    """What a dotted name of tcprobe or api is."""
    first, *parts = dotted.split(".")
    found = {"tcprobe": tcprobe, "api": api}[first]
    for part in parts:
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("python", sorted({row["python"] for row in ROWS if not row["python"].startswith("- ")}))
def test_the_parameter_is_there_and_documented(python):
    dotted, _, parameter = python.removesuffix(")").partition("(")
    function = callable_of(dotted)
    assert function.__doc__
    assert (
        parameter in (getattr(function, "__annotations__", {}) or {})
        or parameter in inspect.signature(function).parameters
    )


def test_few_options_have_no_parameter():
    assert sum(row["python"].startswith("- ") for row in ROWS) <= 31


def test_the_table_of_the_docs_names_parameters_that_there_are():
    """Of `api.verify(gpu, multiplies, seed)` all three, in their order."""
    text = (Path(__file__).parent.parent / "docs" / "python.md").read_text("utf-8")
    calls = re.findall(r"`(api\.\w+)\(([a-z_, =]*)\)", text.split("## The library below")[0])
    assert len(calls) > 12
    wrong = []
    for dotted, words in calls:
        named = [word.strip().removesuffix("=") for word in words.split(",") if word.strip()]
        parameters = list(inspect.signature(callable_of(dotted)).parameters)
        wrong += [] if [name for name in parameters if name in named] == named else [(dotted, named, parameters)]
    assert not wrong
