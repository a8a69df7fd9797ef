"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tcprobe.errors import EnvironmentUnfitError


class Named(click.Path):
    """A path that has a name: an empty one, as of a shell variable that is not set, would be the folder at hand."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        if not str(value):
            self.fail("an empty name.", param, ctx)
        return super().convert(value, param, ctx)


RESULTS = click.option(
    "--results", "folder", type=Named(path_type=Path, file_okay=False),
    help="Folder of saved tables. Default: ./results where it has any, else the published tables.",
)  # fmt: skip
WRITTEN = click.option(
    "--results", "folder", type=Named(path_type=Path, file_okay=False), default=Path("results"), show_default=True,
    help="Folder of tables that is written.",
)  # fmt: skip
ARCH = click.option("--arch", "name", metavar="sm_XX", help="Compute capability, for example sm_90.")
JSON = click.option("--json", "as_json", is_flag=True, help="JSON for other programs.")
CUDA = click.option(
    "--cuda", type=Named(path_type=Path, exists=True, file_okay=False),
    help="Folder of a CUDA toolkit whose ptxas and nvdisasm to use. Default: CUDA_HOME, the installed wheels, PATH.",
)  # fmt: skip


def write_whole(path: Path, text: str) -> None:
    """Write a file aside and rename it, so that it is whole or as it was; EnvironmentUnfitError if that fails."""
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8", newline="\n")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise EnvironmentUnfitError(f"cannot write {path}: {error.strerror}.") from None


class Numbers(click.ParamType[list[int]]):
    """A number, or a range of them: 3, 0-7."""

    name = "N|N-M"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        """The numbers, ascending."""
        if isinstance(value, list):
            return value
        first, dash, last = str(value).partition("-")
        if not (first.isdigit() and (last.isdigit() or not dash)) or int(last or first) < int(first):
            self.fail(f"{value!r} is no number such as 3, nor a range such as 0-7.", param, ctx)
        return list(range(int(first), int(last or first) + 1))
