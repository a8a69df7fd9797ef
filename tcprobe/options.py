"""Options that several commands share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

RESULTS = click.option(
    "--results", "folder", type=click.Path(path_type=Path, file_okay=False),
    help="Folder of saved tables. Default: ./results where it has any, else the published tables.",
)  # fmt: skip
WRITTEN = click.option(
    "--results", "folder", type=click.Path(path_type=Path, file_okay=False), default=Path("results"), show_default=True,
    help="Folder of tables that is written.",
)  # fmt: skip
ARCH = click.option("--arch", "name", metavar="sm_XX", help="Compute capability, for example sm_90.")
JSON = click.option("--json", "as_json", is_flag=True, help="JSON for other programs.")
CUDA = click.option(
    "--cuda", type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder of a CUDA toolkit whose ptxas and nvdisasm to use. Default: CUDA_HOME, the installed wheels, PATH.",
)  # fmt: skip


_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


class Numbers(click.ParamType[list[int]]):
    """A number of at most five digits, or a range of them: 3, 0-7."""

    name = "N|N-M"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        """The numbers, ascending."""
        if isinstance(value, list):
            return value
        match = _RANGE.fullmatch(str(value))
        found = range(int(match[1]), int(match[2] or match[1]) + 1) if match else ()
        if not found:
            self.fail(f"{value!r} is no number such as 3, nor a range such as 0-7.", param, ctx)
        return list(found)
