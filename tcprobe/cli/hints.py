"""The library says what is wrong, the command line what to type: options, and which command helps.

Words of the library name its parameters, in backticks; here they become the options of the command.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import click

from tcprobe.errors import AmbiguousError, TcprobeError, UnknownNameError, UsageError, answer_or_none
from tcprobe.text import any_of

PARAMETER = r"`([a-z][a-z_0-9]*)`"
HINTS = {
    "no table": "`tcprobe why-not {id} --arch {arch}` says more.",
    "no findings": "`tcprobe run --results {folder}` makes them.",
    "no measurements": "`tcprobe run` makes them.",
    "no cost": "`tcprobe run --family cost` on such a GPU measures them.",
    "no price": "`tcprobe run --family prices` on such a GPU measures them.",
    "no arithmetic": "`tcprobe run --family numerics '{id}'` measures it on a GPU.",
    "no GPU": "`tcprobe doctor` says what that needs.",
    "nothing to measure": "`tcprobe doctor` says what can be measured here.",
    "no code": "--json has all of them.",
    "code in CUDA": "--code cuda prints the code.",
    "no whole bytes": "Use the other --global; `tcprobe path --help` says what goes through shared memory.",
    "function names": "Give each its own --name.",
    "two archs": "For example: `tcprobe diff --numerics sm_80 sm_90`.",
    "address maps": "`tcprobe swizzle table help` lists them.",
    "tcgen05 operand in shared memory": "`tcprobe descriptor --tcgen05 --tile 128x64 --type {type}`, for example, says "
    "where its elements are.",
    "address": "`tcprobe show {id}` says what its registers hold.",
    "no folder": "`tcprobe run --results {folder}` makes it.",
    "no registers": "`tcprobe lower {id}` says what it becomes, `tcprobe list {id} --json` what is documented.",
    "operand in tensor memory": "`tcprobe show {id}` and `tcprobe where {id} --row 0 --col 0` say where its "
    "elements are.",
    "instruction that moves a matrix": "`tcprobe show {id}` says which lane holds what.",
    "operand in shared memory": "`tcprobe show {id}` says where its elements are; for other questions, name {form}.",
    "names": "See `tcprobe list`.",
    "numbers": "Give numbers with --row and --col, or with --lane and --i.",
    "opcodes": "`tcprobe lower 'mma.m16n8k16.*' --arch sm_90` lists what they become.",
    "copies in bulk and by tensor maps": "See `tcprobe path m16n8k16 f16 f32 a --tile 64x64 --fill tma` and `tcprobe "
    "swizzle table SWIZZLE_128B --extent 128,8`.",
    "copies from global into shared memory": "See `tcprobe banks --tile 64x64 --type f16 --with cp.async.16` and "
    "`tcprobe path m16n8k16 f16 f32 a --tile 64x64`.",
    "engines": "`tcprobe descriptor --tile 128x64 --type bf16` says where each piece of an operand is; of the same "
    "tile `--with st.shared.b128@rows` or `--with stmatrix.x4` counts what lanes write, `--with ldmatrix.x4` what they "
    "read.",
    "accesses to shared memory": "See `tcprobe banks --address 'lane * 8' --with ld.shared.b64`.",
    "loads": "See `tcprobe load m16n8k16 f16 f32 b`.",
    "exchanges between lanes": "See `tcprobe convert m16n8k16 f16 f32 d m16n8k16 f16 f32 a` and `tcprobe reduce "
    "m16n8k16 f16 f32 d --over row --op max`.",
}


# where the command does not have the options that a hint names
ELSEWHERE = {"numbers": "`tcprobe where {id} --row {row} --col {col}` takes numbers."}
AN_ELEMENT = {"id": "m16n8k16 bf16 f32 a", "row": "3", "col": "9"}
MOST_COMMANDS = 4  # that are named for an option of theirs


def in_options(words: str, ctx: click.Context | None) -> str:
    """The words with the command's options in place of the parameters that they name."""
    options = _options(ctx) if ctx and re.search(PARAMETER, words) else {}
    return re.sub(PARAMETER, lambda named: options.get(named[1], named[0]), words)


def _options(ctx: click.Context) -> dict[str, str]:
    """The command's options by their parameters, and by what they are called, with _ for -, as what it calls says."""
    declared = [p for p in (ctx.meta.get("command") or ctx.command).params if isinstance(p, click.Option)]
    called = {max(p.opts, key=len)[2:].replace("-", "_"): p.opts[0] for p in declared}
    return called | {p.name: p.opts[0] for p in declared if p.name}


def hint(error: TcprobeError, ctx: click.Context | None = None) -> str:
    """What to type, one line; empty where nothing is known, or the command does not have the options that it names."""
    if isinstance(error, AmbiguousError):
        return "Give more of the name" + (":" if error.commands else ".")
    if not isinstance(error, UsageError):
        return ""
    text = HINTS.get(error.topic, "").format(**error.about)
    named = re.findall(r"--[a-z0-9-]+", re.sub("`[^`]*`", "", text))  # what stands in backticks has its own command
    known = set(_options(ctx).values()) if ctx and named else set[str]()
    return text if known.issuperset(named) else ELSEWHERE.get(error.topic, "").format(**_element(error))


def _element(error: UsageError) -> dict[str, str]:
    """The element of what a name may mean, by the two numbers that stand beside it; another where there is none."""
    from tcprobe.ask.where import where

    if not isinstance(error, UnknownNameError) or not error.choices or len(error.numbers) != 2:
        return AN_ELEMENT
    id_, (row, col) = error.choices[0], error.numbers
    found = answer_or_none(lambda: list(where(id_, rows=[row], cols=[col])))
    return {"id": id_, "row": str(row), "col": str(col)} if found else AN_ELEMENT


def instead_of(option: str, ctx: click.Context | None) -> str:
    """What may be meant by an option that the command does not have: a value of another one, one spelt alike, another
    command's.
    """
    import difflib

    bare = option.lstrip("-").lower()
    if ctx is None or not bare:
        return ""
    own = [p.opts for p in ctx.command.params if p.opts[0].startswith("-")]
    names = [name for opts in own for name in opts if name.startswith("--")]
    if meant := _choosing(bare, ctx.command.params):
        return f"Did you mean {meant}?"
    if near := difflib.get_close_matches(bare, [name[2:] for name in names]):
        return f"Did you mean {any_of((f'--{name}' for name in near), 'or')}?"
    commands = _commands_with(option, bare, ctx.find_root())
    more = f" and {len(commands) - MOST_COMMANDS} more" if len(commands) > MOST_COMMANDS else ""
    return f"See {', '.join(commands[:MOST_COMMANDS])}{more}." if commands else ""


def choice_of(value: str, ctx: click.Context | None) -> str:
    """What may be meant by a value that an option does not take: another option's."""
    meant = _choosing(value.lower(), ctx.command.params) if ctx else ""
    return f"Did you mean {meant}?" if meant else ""


def _choosing(value: str, params: Iterable[click.Parameter]) -> str:
    choosing = (p for p in params if isinstance(p.type, click.Choice) and value in p.type.choices)
    return next((f"{option} {value}" for p in choosing for option in p.opts if option.startswith("--")), "")


def _commands_with(option: str, bare: str, root: click.Context) -> list[str]:
    """Commands that have an option, or a value of one that is called so: `banks`, `emit --to svg`; in backticks."""
    from tcprobe import emit

    found = [f"`tcprobe emit --to {bare}`"] if bare in emit.names() else []
    group = root.command
    if not isinstance(group, click.Group):
        return found
    for name in group.list_commands(root):
        command = group.get_command(root, name)
        params = command.params if command else []
        if any(option in p.opts for p in params):
            found.append(f"`tcprobe {name} {option}`")
        elif chosen := _choosing(bare, params):
            found.append(f"`tcprobe {name} {chosen}`")
    return found
