"""Texts in files of their own, C++, PTX or Markdown, with `${expressions}` and Jinja's statements: `$ if`, `$[ if ]$`.

Blank lines after a line of `$ ` are swallowed, those after `$[ ]$` are not. `${-x}` is x, since `-` at a brace takes
blanks away: write `-${x}`.

A file of PTX consists of macros; what follows // is for its readers.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment


def fill(path: Path, **words: object) -> str:
    """The text of a file, filled in."""
    return _environment(path.parent, path.suffix).get_template(path.name).render(words)


class Macros:
    """The macros of the file of PTX beside a module, as functions that return lines.

    They see the module's own names, `names`, and of what it imports `imported`.
    """

    def __init__(self, names: dict[str, Any], **imported: object) -> None:
        self._names, self._path = ChainMap(imported, names), Path(names["__file__"]).with_suffix(".ptx")

    @cached_property
    def _macros(self) -> Any:
        return _environment(self._path.parent, ".ptx").get_template(self._path.name, globals=self._names).module

    def __getattr__(self, macro: str) -> Callable[..., list[str]]:
        written = getattr(self._macros, macro)
        return lambda *words: [stripped for line in written(*words).split("\n") if (stripped := line.strip())]


@cache
def _environment(folder: Path, suffix: str) -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        variable_start_string="${",
        variable_end_string="}",
        block_start_string="$[",
        block_end_string="]$",
        comment_start_string="$#",
        comment_end_string="#$",
        line_statement_prefix="$ ",
        line_comment_prefix="//" if suffix == ".ptx" else None,
        keep_trailing_newline=True,
        trim_blocks=True,
        auto_reload=False,
        finalize=lambda value: (
            "\n".join(value) if type(value) is tuple or isinstance(value, list | Iterator) else value
        ),
    )
    environment.globals |= {"hex": hex, "zip": zip}
    return environment
