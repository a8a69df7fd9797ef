"""Questions: a command has the options of its function and of what prints, each declared once."""

import inspect

import click
import jsonschema
import pytest

from tcprobe import question
from tcprobe.question import declare

for loaded in question.names():
    question.load(loaded)
NAMES = sorted(declare.QUESTIONS)


@pytest.mark.parametrize("name", NAMES)
def test_a_command_has_what_its_function_declares(name):
    command, function = declare.COMMANDS[name], declare.QUESTIONS[name]
    options = {parameter.name for parameter in command.params}
    declared = {row[0].name for row in declare._declared(function)}
    assert declared <= options
    assert all(parameter.help for parameter in command.params if isinstance(parameter, click.Option))
    assert command.help == inspect.getdoc(function).partition("\f")[0].rstrip()


@pytest.mark.parametrize("name", NAMES)
def test_the_schema_of_a_request_takes_defaults_and_nothing_else(name):
    function = declare.QUESTIONS[name]
    schema = declare.request_schema(function)
    jsonschema.Draft202012Validator.check_schema(schema)
    defaults = {
        key: "x" if parameter.default is parameter.empty else parameter.default
        for key, parameter in inspect.signature(function).parameters.items()
        if key in schema["properties"] and parameter.default is not None
    }
    required = {key: value for key, value in defaults.items() if isinstance(value, str | bool | int)}
    jsonschema.validate(required, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**required, "no such parameter": 1}, schema)


@pytest.mark.parametrize("name", NAMES)
def test_an_option_without_its_value_is_refused(name):
    command = declare.COMMANDS[name]
    for option in command.params:
        if (
            isinstance(option, click.Option) and not option.is_flag and option.opts[-1] != "--explain"
        ):  # it may have none
            with pytest.raises(click.BadOptionUsage, match=r"requires (an|[2-9]) argument"):
                command.make_context(name, [option.opts[-1]])
