"""The question `emit`: fragments as code or data for other programs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import click

from tcprobe import emit as formats
from tcprobe.ask.operand import SelectorOption
from tcprobe.code.names import identifier, in_namespace, rename
from tcprobe.errors import UsageError
from tcprobe.isa.inventory import user_ids
from tcprobe.question import words
from tcprobe.question.arguments import arch_name, word
from tcprobe.question.declare import NameWords, Option, command, note
from tcprobe.question.options import NonEmptyText
from tcprobe.question.shared import (
    NameOption,
    NamespaceOption,
    OneArch,
    OnlyOption,
    PermuteOption,
    ResultsOption,
    TileOption,
    WarpsOption,
    output_option,
    tiled_name,
)
from tcprobe.store.cell import Cell, emittable, selected, sources
from tcprobe.store.choose import Layers, layers, some
from tcprobe.system import files
from tcprobe.text import escaped

FORMAT = words.Kind(lambda text: (text.lower(),) if text.lower() in formats.names() else None, turn=words.SAYS_NOTHING)

ARITHMETIC = "numerics"  # what is written of whole multiplies, beside the formats of fragments


class Emitted(NamedTuple):
    """A text in a format, and of how many tables it is, by whom."""

    text: str
    about: str = ""


def emit_patterns(
    patterns: Annotated[Sequence[str], NameWords("FRAGMENT...", "many", "one", required=False)] = (),
    *,
    to: Annotated[
        str, Option("--to", "cuda, ptx, python, ...; `--to help` lists.", "FORMAT", NonEmptyText(), word=FORMAT)
    ],
    tile: TileOption = None,
    warps: WarpsOption = None,
    permute: PermuteOption = None,
    name: NameOption = None,
    namespace: NamespaceOption = None,
    selector: SelectorOption = None,
    arch: OneArch = None,
    results: ResultsOption = None,
    only: OnlyOption = False,
) -> Emitted:
    """Write fragments as code or data for other programs.

    A pattern may mean several fragments; an instruction means its operands. Without --arch it takes the arch that
    `show` takes; formats for several archs (cuda) get all of them.
    """
    from tcprobe.store import names

    folders = layers(results, only)
    if to == "help":
        listed = {known: module.WHAT for known, module in formats.formats().items()}
        listed[ARITHMETIC] = "C++17 header of what multiplies compute, bit by bit, as `numerics --header`"
        return Emitted("".join(f"{known:<16}{what}\n" for known, what in listed.items()))
    if to not in (*formats.names(), ARITHMETIC):
        raise UsageError(f"unknown format {to!r}; known: {', '.join(formats.names())}, {ARITHMETIC}.")
    if not patterns:
        raise UsageError("Missing argument 'FRAGMENT...'.")
    if to == ARITHMETIC:
        unfit = {"name": name, "namespace": namespace, "selector": selector}
        if wrong := [f"`{parameter}`" for parameter, value in unfit.items() if value is not None]:
            raise UsageError(f"{', '.join(wrong)}: for fragments only; numerics describes whole multiplies.")
        return Emitted(_arithmetic(patterns, arch_name(arch), folders))
    on = arch_name(arch) or ("all" if formats.for_all_archs(to) else None)
    meant = [word("patterns", tiled_name(pattern, tile, warps, permute)) for pattern in patterns]
    fragments, notes = names.choose_fragments(meant, on, folders)
    note(*notes)
    tables, without = emittable(fragments, on, folders)
    if without:
        note(f"left out, because {on or tables[0].arch} has no table for them: {some([f.id for f in without])}")
    tables = selected(tables, selector, every=formats.for_all_selectors(to))
    text = _rename(formats.emit(to, tables), tables, name)
    if namespace and to not in ("cuda", "cute"):
        raise UsageError(f"{to} has no namespaces; use cuda or cute.")
    return Emitted(in_namespace(text, namespace), f"{len(tables)} tables as {to}: {sources(tables)}")


@command(emit_patterns, short="Write fragments as code or data for other programs.", name="emit")
def print_emitted(
    emitted: Emitted,
    *,
    to: str,
    output: Annotated[Path | None, output_option("File. Default: standard output.")] = None,
) -> None:
    """The text to standard output or a file, what it is to stderr."""
    if output is None or to == "help":
        click.echo(emitted.text, nl=False)
    else:
        files.write(output, emitted.text.encode())
    if emitted.about:
        click.echo(escaped(("" if output is None else f"{output}: ") + emitted.about), err=True)


def _arithmetic(patterns: Sequence[str], arch: str | None, folders: Layers) -> str:
    """The header of the multiplies that the patterns mean."""
    from tcprobe.ask.numerics import headers
    from tcprobe.isa import names

    meant = (row for pattern in patterns for row in names.resolve(pattern).instructions if row.multiplies)
    multiplies = list(dict.fromkeys(meant))
    if not multiplies:
        raise UsageError(f"numerics describes multiplies; {patterns[0]} is not one. `tcprobe list` lists them.")
    return headers(multiplies, arch, folders)


def _rename(text: str, cells: Sequence[Cell], name: str | None) -> str:
    """The code under a name for the one fragment, or instruction, that it is of; UsageError where it is of several."""
    if not name:
        return text
    ids = list(dict.fromkeys(cell.fragment.id for cell in cells))
    rows = set.intersection(*(set(user_ids(id_)) for id_ in ids))
    if len(ids) > 1 and len(rows) != 1:
        raise UsageError(f"`name` is for one fragment, or one instruction, not {len(ids)} fragments.")
    return rename(text, identifier(ids[0] if len(ids) == 1 else rows.pop()), name)
