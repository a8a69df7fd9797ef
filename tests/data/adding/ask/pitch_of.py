"""How far apart in registers neighbours of a row are: a question that no other file names."""

from typing import Annotated, Literal, NamedTuple

from tcprobe.errors import UsageError
from tcprobe.question.answers import Meta
from tcprobe.question.declare import NameWords, Option, command
from tcprobe.question.shared import ArchOption, JsonOption, OnlyOption, ResultsOption, find_cell, print_answer
from tcprobe.store.cell import Cell
from tcprobe.store.choose import layers


class Pitch(NamedTuple):
    """Of a lane, how many elements it holds of a line."""

    id: str
    elements: Annotated[int, Meta(ge=1)]

    @property
    def in_words(self):
        """One line."""
        return [f"{self.id}: {self.elements} elements of a line per lane"]

    def to_json(self):
        """Plain data."""
        return self._asdict()


def pitch_of(
    name: Annotated[str | Cell, NameWords("FRAGMENT")],
    *,
    along: Annotated[Literal["row", "col"], Option("--along", "Which lines.", shown=True)] = "row",
    least: Annotated[int | None, Option("--least", "Refuse fewer.", "N")] = None,
    arch: ArchOption = None,
    results: ResultsOption = None,
    only: OnlyOption = False,
) -> Pitch:
    """Count the elements of a line that a lane of FRAGMENT holds."""
    cell = find_cell(name, arch, layers(results, only))
    lines = [cell.table.at(0, i)[along] for i in range(cell.fragment.elements)]
    count = max(map(lines.count, lines))
    if least is not None and count < least:
        raise UsageError(f"`least` {least}: {cell.fragment.id} has {count}; see `along`.")
    return Pitch(cell.fragment.id, count)


@command(pitch_of, short="Elements of a line per lane.", json=Pitch)
def print_pitch(pitch: Pitch, *, as_json: JsonOption = False) -> None:
    """NameWords or JSON."""
    print_answer(pitch, as_json)
