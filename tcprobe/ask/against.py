"""Tables against tables: somebody's against the measured one, and measurements of a fragment against each other."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tcprobe.ask.compare import conventional, same_slots
from tcprobe.errors import DataError
from tcprobe.isa import inventory
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.names import select
from tcprobe.layout.table import Table
from tcprobe.store.choose import Found, Layers


class Against(NamedTuple):
    """A stated table against a measured one: of `given` slots `agreed` agree, `not_stated` others are left out.

    `first` has the first that do not agree, in words; `renumbered` says that only rows or columns are numbered
    otherwise, which the hardware cannot tell apart (mma, movmatrix). `diagnosis` says what change makes all of it
    agree; `elsewhere` names fragments, "ID on ARCH", whose measured table it is; `holes` are the slots not stated.
    """

    agreed: int
    given: int
    not_stated: int
    first: list[str]
    renumbered: bool
    diagnosis: list[str]
    elsewhere: list[str]
    holes: list[str]


def against(stated: Table, fragment: Fragment, measured: Table, layers: Layers | None = None) -> Against:
    """Somebody's table of a fragment against the measured one; `layers` are searched for whose table it may be.

    DataError if their shapes differ, and nothing explains that.
    """
    from tcprobe.ask.diagnose import diagnose, holes

    words, elsewhere = diagnose(stated, fragment, measured), _whose(stated, fragment, layers) if layers else []
    try:
        agreed, given, wrong = same_slots(stated, measured)
    except DataError as error:
        if not words and not elsewhere:
            raise
        agreed, given, wrong = 0, sum(cell is not None for cell in stated.cells), [str(error)]
    renumbered = bool(wrong) and conventional(fragment) and same_but_renumbered(stated, measured)
    missing = max(0, measured.points - given)
    return Against(
        agreed, given, missing, wrong, renumbered, words, elsewhere if wrong else [], holes(stated, measured)
    )


def _whose(stated: Table, fragment: Fragment, layers: Layers) -> list[str]:
    """The fragments, and on which archs, that have the very table: the asked one elsewhere first, else others."""
    alike = [f"{fragment.id} on {name}" for name in layers.archs() if layers.layout(fragment, name) == stated.id]
    if alike:
        return alike
    fitting = [
        f for f in inventory.fragments().values() if (f.threads, f.elements) == (stated.threads, stated.elements)
    ]
    return [f"{f.id} on {name}" for f in fitting for name in layers.archs() if layers.layout(f, name) == stated.id][:4]


def same_but_renumbered(stated: Table, measured: Table) -> bool:
    """Whether the tables differ only by a renumbering of rows and of columns."""
    if (stated.threads, stated.elements, stated.outputs) != (
        measured.threads,
        measured.elements,
        measured.outputs,
    ):
        return False
    for name in stated.outputs:
        pairs = set(zip(stated.values[name], measured.values[name], strict=True))
        if len({a for a, _ in pairs}) != len(pairs) or len({b for _, b in pairs}) != len(pairs):
            return False
    return True


class Repetition(NamedTuple):
    """Whether two measurements of a fragment found the same table, each named by its method and where it is."""

    fragment: Fragment
    first: str
    other: str
    same: bool


def measurements_agree(layers: Layers, arch_name: str, patterns: Sequence[str] = ()) -> Iterator[Repetition]:
    """The table that counts against every other of the arch: of its other methods, and of folders below."""
    for fragment in select(*patterns):
        tables = list(layers.tables(fragment, [arch_name]))
        for other in tables[1:]:
            same = tables[0].table(fragment) == other.table(fragment)
            yield Repetition(fragment, _label(tables[0], layers), _label(other, layers), same)


def _label(chosen: Found, layers: Layers) -> str:
    return chosen.measured.method + (f" ({chosen.source})" if len(layers.layers) > 1 else "")


def measured_fragments(
    layers: Layers, arch_name: str, patterns: Sequence[str] = ()
) -> Iterator[tuple[Fragment, Found]]:
    """Fragments that `patterns` mean (all without one) with the measurements that count on an arch."""
    for fragment in select(*patterns):
        chosen = layers.choose(fragment, [arch_name])
        if chosen:
            yield fragment, chosen
