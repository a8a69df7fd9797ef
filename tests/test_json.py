"""JSON: every command's lines follow docs/schema.json, which names every field."""

import json

import click
import pytest
from click.testing import CliRunner
from json_samples import CALLS, SCHEMA, filled, objects

from tcprobe.cli import main
from tcprobe.isa import inventory

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
    apart = {"ablate", "contribute", "verify", "kernel gemm --emulate", "numerics --a", "numerics --bound"}
    assert set(CALLS) | apart == set(DEFINED["$defs"])


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(DEFINED)


def test_every_answer_says_its_version_and_what_it_is():
    for name, schema in DEFINED["$defs"].items():
        assert schema["version"] >= 1, name
        assert schema["description"], name


def test_objects_have_the_fields_that_are_described_and_no_others():
    """Objects whose keys are data say what their values are; no other object takes a key that nothing describes."""

    def objects_in(schema):
        parts = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
        if isinstance(schema, dict) and schema.get("type") == "object":
            yield schema
        for part in parts:
            yield from objects_in(part)

    for schema in objects_in(DEFINED["$defs"]):
        assert "additionalProperties" in schema, schema
        assert set(schema.get("required", ())) <= set(schema.get("properties", ()))


@pytest.mark.parametrize(
    ("name", "call"), [(n, c) for n, calls in CALLS.items() for c in calls], ids=lambda v: str(v)[:60]
)
@pytest.mark.sampled(17)
def test_lines_follow_the_schema(name, call, tmp_path):
    done = CliRunner().invoke(main, [*filled(call, tmp_path), "--json"])
    assert done.exit_code in (0, 1), done.output
    found = objects(done.stdout)
    checker = jsonschema.Draft202012Validator(DEFINED | {"$ref": f"#/$defs/{name}"})  # one may stand in another
    assert found
    for one in found:
        assert [error.message for error in checker.iter_errors(one)] == []


def test_slots_that_look_alike_are_told_apart_by_product(sample):
    """Of several products: no two slots of a product's table have one element, and the schema says how to tell."""
    shown = DEFINED["$defs"]["show"]
    (described,) = [way["properties"] for way in shown.get("anyOf", [shown]) if "table" in way.get("properties", {})]
    assert "product" in described["table"]["description"]
    several = [f for f in inventory.of_a_warp().values() if f.products > 1]
    assert several
    for fragment in sample(several, 8):
        done = CliRunner().invoke(main, ["show", fragment.id, "--json"])
        entry = json.loads(done.stdout.splitlines()[0])
        rows = [tuple(element) for lane in entry["table"] for element in lane]
        products = [product for lane in entry["product"] for product in lane]
        assert len(set(rows)) < len(rows)
        assert len(set(zip(products, rows, strict=True))) * fragment.copies == len(rows)
        assert set(products) == set(range(fragment.products))


def test_a_fragment_of_every_kind_is_shown_as_the_schema_says(sample):
    """One of each size of each operand of each family: bytes that no scale is in are null, too."""
    kinds = {(f.family, f.operand, f.elements, f.slot_bits): f.id for f in inventory.of_a_warp().values()}
    checker = jsonschema.Draft202012Validator(DEFINED["$defs"]["show"])
    tried = 0
    for id_ in sample(sorted(kinds.values()), 3):
        done = CliRunner().invoke(main, ["show", id_, "--json"])
        assert done.exit_code in (0, 2), done.output
        for one in objects(done.stdout):
            assert [error.message for error in checker.iter_errors(one)] == [], id_
            tried += 1
    assert tried > 20


def test_a_field_that_is_not_described_is_noticed():
    checker = jsonschema.Draft202012Validator(DEFINED["$defs"]["doctor"])
    assert list(checker.iter_errors({"what": "x", "there": True, "words": "y", "more": 1}))
