"""A question is declared once, by the Python function that users call; its command is made from that function.

A parameter's annotation says which option it is, the docstring is the help:

    def load(
        name: Annotated[str | Cell, NameWords("FRAGMENT")],
        *,
        ld: Annotated[int | None, Option("--ld", "Stride.")] = None,
    ) -> StraightLoad:
        \"\"\"Load FRAGMENT straight from global memory.\"\"\"

    @command(load, short="Widest loads.")
    def print_load(plan: StraightLoad, *, as_json: JsonOption = False) -> None: ...

`command` gives a click command. It calls `load` with what was typed, and with the answer the decorated function, which
prints it; options that printing alone needs are parameters of that function. `json` is the type of what `--json` prints
(`question/answers.py`). Modules with questions have no `from __future__ import annotations`, so that annotations are
values.

What excludes what is checked by the function alone. Its errors name parameters in backticks; the command line says the
options instead, which it knows by the same names. What a docstring says below a form feed is for Python alone.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Literal, NamedTuple, get_args, get_origin

import click

from tcprobe.isa.names import likely
from tcprobe.question import answers as typed
from tcprobe.question import naming
from tcprobe.question.naming import Suggesting
from tcprobe.question.options import NonEmptyText, Number, Seconds, fragment_names
from tcprobe.question.words import Among, Kind, Spoken
from tcprobe.text import message

Answering = Callable[..., Any]
COMMANDS: dict[str, click.Command] = {}  # of the questions that were imported, by name
QUESTIONS: dict[str, Answering] = {}
_LISTENER: ContextVar[Callable[[str], None] | None] = ContextVar("_LISTENER", default=None)


class Option(NamedTuple):
    """The option of a parameter: its name, its help, what stands for its value, and how its text is read.

    Without `reads` the annotation decides: bool is a flag, Literal a choice, int a number from 0 up, and str a text
    that is not empty. `default` is what the help states where the function itself decides.

    Words of a request fill it: of the kind `word`, which without one follows from how the text is read, or beside its
    name or another that it is `called`.
    """

    flag: str
    help: str
    metavar: str | None = None
    reads: click.ParamType[Any] | None = None
    multiple: bool = False
    shown: bool = False  # the default, in the help
    default: str = ""
    also: str = ""  # its other name: -o
    values: int = 1  # words that follow it
    word: Kind | None = None
    called: tuple[str, ...] = ()


class PlainArgument(NamedTuple):
    """The parameter that takes a word beside options which is no name: a file; all words if `multiple`, or `joined`.

    With `among` words of options may stand there too: among those of "one" name, or beside "" no name.
    """

    metavar: str
    reads: click.ParamType[Any] | None = None
    multiple: bool = False
    joined: bool = False
    among: str | None = None


class NameWords(NamedTuple):
    """The parameter that takes the words beside options: names of fragments, instructions, opcodes; GPUs among them.

    `number`: one name, pairs, or many. `archs`: with several, the question is asked for each, refused (one), or
    asked once with all, separated by commas (list).
    """

    metavar: str
    number: Literal["one", "pairs", "many"] = "one"
    archs: Literal["each", "one", "list"] = "each"
    required: bool = True
    completes: bool = True
    answers: bool = True  # without measuring: what a message suggests is asked before it is printed


def note(*texts: str | None) -> None:
    """Say something beside an answer, such as what a name was taken for: on stderr at the command line."""
    listener = _LISTENER.get()
    for text in texts:
        if text and listener:
            listener(text)


def is_heard() -> bool:
    """Whether somebody listens to notes, as the command line does."""
    return _LISTENER.get() is not None


@contextmanager
def listening(listener: Callable[[str], None]) -> Iterator[None]:
    """Give what `note` says inside to a listener."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def _say(text: str) -> None:
    click.echo(message(text), err=True)


def group(*, short: str, text: str, name: str) -> click.Group:
    """A command that has others below it, those of questions whose `command` is `of` it; `text` is its help.

    `GROUP = group(short=..., name=..., text=...)`: the list of commands reads it so.
    """
    COMMANDS[name] = made = Suggesting(name, help=text, short_help=short)
    return made


def command(
    question: Answering,
    *,
    short: str,
    name: str = "",
    of: click.Group | None = None,
    cls: type[click.Command] = click.Command,
    json: Any = None,
    asks: Callable[[dict[str, Any]], list[dict[str, Any]]] | None = None,
) -> Callable[[Answering], click.Command]:
    """The command of a question: options from its signature and from that of the decorated function, which prints.

    That one may take parameters of the question too, by their names alone. With `asks` the question is asked several
    times, with the arguments that it makes of all that was typed; what prints then gets a list of answers.
    """

    def from_printer(printer: Answering) -> click.Command:
        asked, printed = _declared(question), _declared(printer)
        words = next((each for each in asked if isinstance(each[1], NameWords)), None)
        shown = list(inspect.signature(printer).parameters)[1:]
        parameters = [_click_parameter(*each) for each in (*asked, *printed) if each[1] is not None]

        def run(**values: Any) -> None:
            say = None if naming.is_strict(click.get_current_context()) else _say
            with listening(_say), likely.answering(say):
                given = {each[0].name: values[each[0].name] for each in asked if each[0].name in values}
                answer = [question(**arguments) for arguments in asks(values)] if asks else question(**given)
                printer(answer, **{key: values[key] for key in shown if key in values})

        def answers(**values: Any) -> None:
            with listening(lambda _text: None):
                given = {each[0].name: values[each[0].name] for each in asked if each[0].name in values}
                for arguments in asks(values) if asks else [given]:
                    answer = question(**arguments)
                    deque(answer if isinstance(answer, Iterator) else (), 0)  # a lazy one answers as it is read

        if words is not None:
            parameter, declared = words[0].name, words[1]
            run = naming.named(parameter, declared.archs, declared.number, answers if declared.answers else None)(run)
        made = cls(
            name or question.__name__.rstrip("_").replace("_", "-"),
            params=sorted(parameters, key=lambda each: COMMON.index(each.name) if each.name in COMMON else -1),
            callback=run,
            help=(inspect.getdoc(question) or "").partition("\f")[0].rstrip(),
            short_help=short,
        )
        if of is not None:
            of.add_command(made)
        path = f"{of.name} {made.name}" if of else str(made.name)
        COMMANDS[path], QUESTIONS[path] = made, question
        if json is not None:
            typed.declare(path, json)
        return made

    return from_printer


# options that many questions have come last
COMMON = ("output", "function", "namespace", "arch", "results", "only", "as_json")


def _declared(function: Answering) -> list[tuple[inspect.Parameter, Any, Any]]:
    """(parameter, its Option or NameWords, its type) of those that are asked for at the command line."""
    rows = []
    for parameter in inspect.signature(function).parameters.values():
        hint, *extras = get_args(parameter.annotation) if hasattr(parameter.annotation, "__metadata__") else (None,)
        option = next((extra for extra in extras if isinstance(extra, Option | NameWords | PlainArgument)), None)
        if option is not None:
            rows.append((parameter, option, hint))
    return rows


def _click_parameter(
    parameter: inspect.Parameter, declared: Option | NameWords | PlainArgument, hint: Any
) -> click.Parameter:
    if isinstance(declared, NameWords):
        completes = fragment_names if declared.completes else None
        return Among(
            [parameter.name],
            names=declared.number,
            nargs=-1,
            required=declared.required,
            metavar=declared.metavar,
            shell_complete=completes,
        )
    required = parameter.default is parameter.empty
    if isinstance(declared, PlainArgument):
        joins = (lambda _ctx, _param, words: " ".join(naming.meant(words)) or None) if declared.joined else None
        kind = click.Argument if declared.among is None else partial(Among, names=declared.among)
        return kind(
            [parameter.name],
            nargs=-1 if declared.multiple or declared.joined else 1,
            required=required,
            metavar=declared.metavar,
            type=declared.reads,
            callback=joins,
        )
    default: dict[str, Any] = {} if required else {"default": parameter.default}
    reads, is_flag = declared.reads or _reader(hint), bool in _kinds(hint)
    return Spoken(
        [parameter.name, *([declared.also] if declared.also else []), declared.flag],
        help=declared.help + (f"  [default: {declared.default}]" if declared.default else ""),
        show_default=declared.shown,
        metavar=declared.metavar,
        type=None if is_flag else reads,
        is_flag=is_flag or None,  # False would let the value be left out
        multiple=declared.multiple,
        nargs=declared.values,
        required=required,
        kind=declared.word or getattr(declared.reads, "word", None),
        called=declared.called,
        **default,
    )


def _kinds(hint: Any) -> tuple[Any, ...]:
    """The types that a hint allows, Literal as it is."""
    return (hint,) if get_origin(hint) is Literal or not get_args(hint) else get_args(hint)


def _reader(hint: Any) -> click.ParamType[Any]:
    for kind in _kinds(hint):
        if get_origin(kind) is Literal:
            return click.Choice(get_args(kind))
        if kind is int:
            return Number()
    return NonEmptyText()


def request_schema(question: Answering) -> dict[str, Any]:
    """The JSON Schema of what a question takes, by the names of its parameters; texts as at the command line."""
    rows = [row for row in _declared(question) if isinstance(row[1], Option | NameWords | PlainArgument)]
    return {
        "type": "object",
        "description": (inspect.getdoc(question) or "").partition("\n\n")[0].replace("\n", " "),
        "properties": {parameter.name: _value_schema(*row) for parameter, *row in rows},
        "required": [parameter.name for parameter, *_ in rows if parameter.default is parameter.empty],
        "additionalProperties": False,
    }


def _value_schema(declared: Option | NameWords | PlainArgument, hint: Any) -> dict[str, Any]:
    if isinstance(declared, NameWords | PlainArgument):
        plain: dict[str, Any] = {"type": "string", "minLength": 1, "description": declared.metavar}
        several = isinstance(declared, PlainArgument) and declared.multiple
        return {"anyOf": [plain, {"type": "array", "items": plain}]} if several else plain
    kinds, described = _kinds(hint), {"description": declared.help}
    choices = next((list(get_args(kind)) for kind in kinds if get_origin(kind) is Literal), None)
    if choices:
        return {"enum": choices, **described}
    if bool in kinds:
        return {"type": "boolean", **described}
    reads = declared.reads or _reader(hint)
    if isinstance(reads, Number | Seconds):
        bounds = {"minimum": reads.min, "maximum": reads.max}
        kind = "integer" if isinstance(reads, Number) else "number"
        return {"type": kind, **{name: bound for name, bound in bounds.items() if bound is not None}, **described}
    plain = {"type": "string", "minLength": 1}
    return ({"type": "array", "items": plain} if declared.multiple else plain) | described
