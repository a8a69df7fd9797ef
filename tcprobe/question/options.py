"""Types of options, and options of commands that are no questions."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any

import click

from tcprobe.errors import UsageError
from tcprobe.question import words
from tcprobe.text import quoted

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from tcprobe.layout.swizzle import SwizzleName

PathName = str | bytes | os.PathLike[str]


class Named(click.Path):
    """A path that has a name: an empty one, as of a shell variable that is not set, would be the current folder."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> PathName:
        """The Path."""
        from pathlib import Path  # most answers need none

        if not str(value):
            self.fail("an empty name.", param, ctx)
        if not _for_the_system(str(value)):
            self.fail(f"{quoted(str(value))} is not a name that this system allows.", param, ctx)
        path = super().convert(str(value), param, ctx)
        if not self.file_okay and os.path.lexists(path) and not os.path.isdir(path):
            self.fail(f"{quoted(str(value))} is not a folder.", param, ctx)
        return Path(os.fsdecode(path))


def _for_the_system(name: str) -> bool:
    try:
        return b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:
        return False


class NonEmptyText(click.ParamType[str]):
    """A text that is not empty: an unset shell variable would otherwise match everything."""

    name = "text"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text."""
        if not str(value).strip():
            self.fail("an empty text.", param, ctx)
        return str(value)


class Number(click.IntRange):
    """A whole number in decimal digits, 0 or more unless a least one is stated."""

    is_number = True

    def __init__(self, least: int = 0, most: int | None = None) -> None:
        super().__init__(least, most)

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number."""
        if not re.fullmatch("[0-9]{1,18}", str(value)):
            self.fail(f"{quoted(str(value))} is not a number such as 3.", param, ctx)
        return super().convert(int(str(value)), param, ctx)


class Seconds(click.FloatRange):
    """A time of at least a second and at most a day."""

    unit, most = "seconds", 86400

    def __init__(self) -> None:
        super().__init__(1, self.most)

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number of units."""
        if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{0,9})?", str(value)):
            self.fail(f"{quoted(str(value))} is not a number of {self.unit} such as 60 or 2.5.", param, ctx)
        return super().convert(float(str(value)), param, ctx)


class Minutes(Seconds):
    """A time of at least a minute and at most a day."""

    unit, most = "minutes", 1440


WRITTEN = click.option(
    "--results",
    "folder",
    type=Named(file_okay=False),
    default="results",
    show_default=True,
    help="Results folder to write.",
)
JSON = click.option("--json", "as_json", is_flag=True, help="JSON for other programs.")
_RANGE = r"([0-9]{1,5})(?:-([0-9]{1,5}))?"


class Output(Named):
    """The name of a file to write: not empty, and without the slash at its end that a folder's may have."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> PathName:
        """The path."""
        if str(value).endswith(("/", os.sep)):
            self.fail(f"{quoted(str(value))} is not a file name.", param, ctx)
        return super().convert(value, param, ctx)


class Numbers(click.ParamType[list[int]]):
    """A number of at most five digits, or a range of them: 3, 0-7."""

    name, is_number = "N|N-M", True

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        """The numbers, ascending."""
        if isinstance(value, list):
            return value
        match = re.fullmatch(_RANGE, str(value))
        numbers = range(int(match[1]), int(match[2] or match[1]) + 1) if match else ()
        if not numbers:
            self.fail(f"{quoted(str(value))} is not a number such as 3, nor a range such as 0-7.", param, ctx)
        return list(numbers)


class Listed(click.ParamType[list[int]]):
    """Numbers of at most three digits with commas between: 0,1,2."""

    name = "N,N,..."

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        """The numbers, as they stand."""
        if isinstance(value, list):
            return value
        if not re.fullmatch(r"[0-9]{1,3}(,[0-9]{1,3}){0,15}", str(value), re.ASCII):
            self.fail(f"{quoted(str(value))} is not numbers such as 0,1,2.", param, ctx)
        return [int(number) for number in str(value).split(",")]


def is_redirected() -> bool:
    """Whether standard output is not a terminal."""
    return sys.stdout is None or not sys.stdout.isatty()


def fragment_names(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """For a shell's completion: ids of fragments and instructions that begin as what is typed."""
    from click.shell_completion import CompletionItem

    from tcprobe.isa import inventory

    ids = dict.fromkeys((*inventory.fragments(), *inventory.instructions()))
    return [CompletionItem(id_) for id_ in ids if id_.startswith(incomplete.lower())]


class SwizzleType(click.ParamType["SwizzleName"]):
    """A swizzle in any spelling, as `layout.spelling` reads it."""

    name, word = "SWIZZLE", words.SWIZZLE

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> SwizzleName:
        """The swizzle and its name."""
        from tcprobe.layout import swizzle as spelling

        try:
            return value if isinstance(value, spelling.SwizzleName) else spelling.swizzle_named(str(value))
        except UsageError as error:
            self.fail(str(error), param, ctx)


class SwizzleText(SwizzleType):
    """A swizzle in any spelling, as the text of its one spelling."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The text."""
        return str(super().convert(value, param, ctx))


class MapSwizzle(click.ParamType[str]):
    """A tensor map's mode: a swizzle in any spelling, or one with atoms of 32 or 64 bytes."""

    name, word = "SWIZZLE", words.SWIZZLE

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """As the driver calls it: NONE, 128B, 128B_ATOM_32B."""
        from tcprobe.layout import swizzle as spelling

        try:
            return spelling.map_mode(str(value))
        except UsageError as error:
            self.fail(str(error), param, ctx)


class Sides(click.ParamType[tuple[int, ...]]):
    """Up to `most` numbers with x or commas between; two where that is two."""

    word: words.Kind | None = words.TILE

    def __init__(self, most: int = 5, name: str = "N,...") -> None:
        self.most, self.name = most, name

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """All of them."""
        from tcprobe.layout import swizzle as spelling

        try:
            return value if isinstance(value, tuple) else spelling.sizes_written(str(value), self.most)
        except UsageError as error:
            self.fail(str(error), param, ctx)


class Warps(Sides):
    """Warps along two sides, or how many there are."""

    word = None

    def __init__(self) -> None:
        super().__init__(2, "MxN")

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Both sides, or the one number."""
        number = re.fullmatch("[1-9][0-9]?", str(value))
        return (int(str(value)),) if number else super().convert(value, param, ctx)


class MapTile(click.ParamType[tuple[int, ...]]):
    """A tile of a tensor map, or the matrix that it is `of`, of one to five sides, outer ones first."""

    name, word = "ROWSxCOLS", words.TILE

    def __init__(self, said: str = "tile") -> None:
        self._said = said

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Its sides; UsageError, which names the parameter, for those of the driver's order."""
        from tcprobe.layout.swizzle import map_tile

        return value if isinstance(value, tuple) else map_tile(str(value), self._said)


class ElementType(NonEmptyText):
    """An element type as PTX names it, or as C or cuda.h do."""

    name, word = "TYPE", words.TYPE

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """PTX's name, if there is one."""
        from tcprobe.layout import swizzle as spelling

        return spelling.type_named(super().convert(value, param, ctx))
