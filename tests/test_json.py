"""JSON: every command's lines follow docs/schema.json, which names every field."""

import json

import click
import pytest
from click.testing import CliRunner
from json_samples import CALLS, SCHEMA, filled, objects

from tcprobe.cli import main

jsonschema = pytest.importorskip("jsonschema")
DEFINED = json.loads(SCHEMA.read_text())
WITHOUT = {"emit", "pages", "site"}  # what writes files for others


def commands(group=main, path=()):
    """Names of all commands, and the commands."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


def test_every_command_takes_json_and_is_described():
    for name, command in commands():
        takes = any("--json" in option.opts for option in command.params)
        assert takes == (name.split(" ")[0] not in WITHOUT), name
        assert not takes or name in DEFINED["$defs"], f"{name} is not in docs/schema.json"
    assert set(CALLS) | {"verify", "numerics --a", "numerics --bound"} == set(DEFINED["$defs"])


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(DEFINED)


@pytest.mark.parametrize(
    ("name", "call"), [(n, c) for n, calls in CALLS.items() for c in calls], ids=lambda v: str(v)[:60]
)
@pytest.mark.sampled(7)
def test_lines_follow_the_schema(name, call, tmp_path):
    done = CliRunner().invoke(main, [*filled(call, tmp_path), "--json"])
    assert done.exit_code in (0, 1), done.output
    found = objects(done.stdout)
    checker = jsonschema.Draft202012Validator(DEFINED["$defs"][name])
    assert found
    for one in found:
        assert [error.message for error in checker.iter_errors(one)] == []


def test_a_field_that_is_not_described_is_noticed():
    checker = jsonschema.Draft202012Validator(DEFINED["$defs"]["doctor"])
    assert list(checker.iter_errors({"what": "x", "there": True, "words": "y", "more": 1}))
