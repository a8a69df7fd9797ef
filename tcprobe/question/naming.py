"""Names on a command line: of commands, and among the words the GPUs; what to paste where one means nothing or several.

A group of commands refuses an unknown name, or an option given twice, before anything is done.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import click

from tcprobe.errors import AmbiguousError, UnknownNameError, UsageError, answer_or_none
from tcprobe.isa.names import likely
from tcprobe.notation import begins_layout, follows_layout, is_written
from tcprobe.question.words import option_words, rewritten
from tcprobe.text import any_of, quoted

# what people write beside a name: it says what they want to know, and changes no answer
TOPICS = frozenset(
    (
        "accumulate",
        "accumulation",
        "accuracy",
        "alignment",
        "bandwidth",
        "columns",
        "cycle",
        "cycles",
        "epilogue",
        "exact",
        "flop",
        "flops",
        "for",
        "hide",
        "hiding",
        "how",
        "in",
        "interval",
        "is",
        "latency",
        "layout",
        "lbo",
        "macs",
        "mainloop",
        "many",
        "occupancy",
        "of",
        "peak",
        "per",
        "precision",
        "prologue",
        "register",
        "registers",
        "rounding",
        "rounds",
        "sbo",
        "second",
        "subnormal",
        "subnormals",
        "the",
        "throughput",
        "tiledcopy",
        "tiledmma",
        "tv",
        "what",
        "which",
    )
)
BETWEEN = ("to", "into", "->")  # what stands between two names
Called = Callable[..., None]  # a command, whatever its options


def named(
    parameter: str, archs: str = "each", count: str = "many", answers: Called | None = None
) -> Callable[[Called], Called]:
    """A command whose `parameter` gets names of the words there, a `count` of one, pairs or many, and whose --arch may
    stand among them. With archs "each" it runs for one after the other, with "one" it takes one, with "list" all.

    Of the commands that an error suggests those are named that `answers` takes without a UsageError, as it asks the
    question; all without one.
    """

    def with_names(command: Called) -> Called:
        @functools.wraps(command)
        def called(*context: click.Context, **params: Any) -> None:
            tokens = meant(params[parameter]) or params[parameter]
            words = tokens
            ctx = click.get_current_context()
            argument = next(p for p in ctx.command.params if p.name == parameter)
            if not all(token.strip() for token in params[parameter]):
                raise UsageError(f"{argument.make_metavar(ctx)}: a name is empty.")
            if argument.required and not words:
                raise click.MissingParameter(ctx=ctx, param=argument)
            apart = count == "pairs" and len(words) == 2
            names = [" ".join(words)] * bool(words) if count == "one" else list(words) if apart else split_names(words)
            each_arch = _archs(params, archs)

            def call(asked: Called, names: Sequence[str], *context: click.Context, **more: Any) -> None:
                meant_names = " ".join(names) or None if count == "one" else tuple(names)
                for arch_params in each_arch:
                    asked(*context, **params | {parameter: meant_names} | arch_params | more)

            try:
                call(command, names, *context)
            except (AmbiguousError, UnknownNameError) as error:
                tried = _answered(partial(call, answers)) if answers else None
                error.commands = _commands(names, error, tried)
                raise

        return called

    return with_names


def meant(tokens: Sequence[str]) -> list[str]:
    """The tokens without words that only say what one wants to know; a layout's text stays whole."""
    kept = [
        token if begins_layout(token) else " ".join(word for word in token.split() if word.lower() not in TOPICS)
        for token in tokens
    ]
    return [token for token, whole in zip(kept, tokens, strict=True) if token or not whole.strip()]


def _archs(params: dict[str, Any], archs: str) -> list[dict[str, str | None]]:
    if "arch" not in params:
        return [{}]
    name = params.pop("arch")
    listed = [name] if archs == "list" or not name else name.split(",")
    if len(listed) > 1 and (archs == "one" or params.get("output")):
        raise UsageError(f"one arch is needed here, not {len(listed)}: {name}.")
    return [{"arch": arch_name} for arch_name in listed]


def split_names(tokens: Sequence[str]) -> list[str]:
    """Names of a command line: each for itself, unless one of them is a bare word such as f32. Then they are words of
    one name; or of several, each with an operand at its end, or all at their beginning. A file of a table comes first.
    """
    from tcprobe.isa import inventory

    if tokens and (tokens[0] == "-" or tokens[0].endswith((".csv", ".tsv"))):
        return [tokens[0], *split_names(tokens[1:])]
    if layouts := [place for place, token in enumerate(tokens) if is_written(token)]:
        first = layouts[0]
        last = first + 1
        while last < len(tokens) and follows_layout(tokens[first:last], tokens[last]):
            last += 1
        return [*split_names(tokens[:first]), " ".join(tokens[first:last]), *split_names(tokens[last:])]
    if len(tokens) < 2 or not any(map(_is_bare, tokens)) or set(tokens) <= set(inventory.families()):
        return list(tokens)
    words = [word for word in " ".join(tokens).split() if word.lower() not in BETWEEN]
    operands = [position for position, word in enumerate(words) if _ends_name(word)]
    if len(operands) > 1 and operands[0] == 0:
        cuts = operands[1:]
    else:
        last = operands[-1] + 1 if operands else 0
        stored = operands and last < len(words) and words[last].startswith("stmatrix")  # where `convert` goes to
        cuts = [position + 1 for position in operands[:-1]] + [last] * bool(stored)
    names = [words[start:to] for start, to in zip([0, *cuts], [*cuts, len(words)], strict=True)]
    for other, name in [*pairwise(names), *((after, name) for name, after in pairwise(names[:2]))]:
        if all(map(_ends_name, name)):  # an operand alone is one of the instruction beside it
            name[:0] = [word for word in other if not _ends_name(word)]
    return [" ".join(name) for name in names]


def _is_bare(word: str) -> bool:
    return bool(re.fullmatch(r"\w[\w-]*", word)) and not re.match(r"sm[0-9]+_", word, re.I)


def _ends_name(word: str) -> bool:
    from tcprobe.isa.names.words import OPERANDS, read

    return read(word).plain[-1:] != () and read(word).plain[-1] in OPERANDS


Answers = Callable[[Sequence[str]], bool]


def _answered(ask: Callable[..., None]) -> Answers:
    """Whether the question has an answer for names."""

    def is_answered(names: Sequence[str]) -> bool:
        def asked() -> bool:
            ask(names)
            return True

        return bool(answer_or_none(asked))

    return is_answered


def _commands(
    names: Sequence[str],
    name_error: AmbiguousError | UnknownNameError,
    is_answered: Answers | None,
) -> list[str]:
    """The command as it was typed, with each choice in the place of the name that means several things; of these lines
    those that are answered.
    """
    import shlex

    ctx = click.get_current_context()
    options, _, _ = ctx.command.make_parser(ctx).parse_args(list(ctx.meta.get("args", ())))
    rest = [word for parameter in ctx.command.params for word in option_words(parameter, options)]
    beside = re.findall(r"(?<![\w.:])[0-9]+(?![\w.:])", name_error.name)
    lines = []
    for choice in name_error.choices:
        if not all(re.search(rf"(?<![0-9]){number}(?![0-9])", choice) for number in beside):
            continue  # a number of the name would be lost
        spelled = [choice if name == name_error.name else name for name in names]
        if is_answered is None or is_answered(spelled):
            lines.append(shlex.join([*ctx.command_path.split(), *spelled, *rest]))
    return lines


STRICT = "--strict"
MANY = 9  # commands that a message does not list


def is_strict(ctx: click.Context) -> bool:
    """Whether words that fit several things are refused, and options are said as options."""
    return bool(ctx.meta.get("strict") or ctx.find_root().params.get("strict"))


class Suggesting(click.Group):
    """A group of commands that refuses an unknown name with the names that it is like."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of a line; it and its words stay known, for what is said of errors.

        UnknownNameError, with lines to paste, for a name that no command has.
        """
        if not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            raise self._unknown_command(ctx, args)
        name, command, words = super().resolve_command(ctx, args)
        if command is not None and not isinstance(command, click.Group) and not ctx.resilient_parsing:
            inner = click.Context(command, parent=ctx, info_name=name)
            words = self._read(command, inner, words)
            _check_once(inner, words)
        ctx.meta["args"], ctx.meta["command"] = list(words), command
        return name, command, words

    def _read(self, command: click.Command, ctx: click.Context, args: list[str]) -> list[str]:
        """The words of a line, with options in place of those that say them; in place of GPUs alone if it is strict."""
        end = args.index("--") if "--" in args else len(args)
        if STRICT in args[:end]:
            args = [word for place, word in enumerate(args) if word != STRICT or place > end]
            ctx.meta["strict"] = True
        with likely.answering(None if is_strict(ctx) else lambda text: click.echo(text, err=True)):
            return rewritten(command, ctx, args, is_strict(ctx))

    def _unknown_command(self, ctx: click.Context, args: list[str]) -> UnknownNameError:
        """The error for an unknown command, with names like it, commands with an option of that name, or the help."""
        import difflib
        import shlex

        path, names = ctx.command_path.split(), self.list_commands(ctx)
        if near := difflib.get_close_matches(args[0].lower(), names, n=3):
            advice, choices = f"Did you mean {any_of(near, 'or')}?", [[*path, name, *args[1:]] for name in near]
        elif having := _with_option(args[0].lower(), ctx.find_root()):
            advice, choices = f"--{args[0].lower()} is an option.", [[path[0], name, "--help"] for name in having]
        else:
            some = f"{', '.join(names)}." if len(names) < MANY else f"{len(names)}; its help lists them."
            advice, choices = f"{' '.join(path)} has {some}", [[*path, "--help"]]
        error = UnknownNameError(f"there is no command {quoted(' '.join([*path[1:], args[0]]))}. {advice}")
        error.commands = [shlex.join(words) for words in choices]
        return error


def _check_once(ctx: click.Context, command_line: Sequence[str]) -> None:
    """UsageError for an option with a value that stands twice and may not: click would take the last, silently."""
    try:
        given = ctx.command.make_parser(ctx).parse_args(list(command_line))[2]
    except click.UsageError:
        return  # the command itself says it, with its own help
    once = [p for p in given if isinstance(p, click.Option) and not (p.multiple or p.is_flag or p.count)]
    if twice := next((param for param in once if given.count(param) > 1), None):
        raise UsageError(f"{max(twice.opts, key=len)} is given {given.count(twice)} times, but takes one value.")


def _with_option(name: str, ctx: click.Context) -> list[str]:
    """Names of the commands that have an option --NAME."""
    group = ctx.command
    commands = (
        [group.get_command(ctx, name) for name in group.list_commands(ctx)] if isinstance(group, click.Group) else []
    )
    return [str(command.name) for command in commands if command and any(f"--{name}" in p.opts for p in command.params)]
