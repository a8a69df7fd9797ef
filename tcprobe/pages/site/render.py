"""A page as text: a template of this package filled in, with everything escaped that a template does not vouch for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from tcprobe import __version__
from tcprobe.pages.site import markup
from tcprobe.text import escaped
from tcprobe.values import Json

LinkList = list[tuple[str, str]]
Links = Sequence[tuple[str, str]]  # (text, address, which may be empty)


class View(NamedTuple):
    """A page before it is text: its address, the template, and what that shows."""

    page: str
    template: str
    title: str
    about: str
    shows: Json


class ListPart(NamedTuple):
    """A part of a page that is a list: head, words, a table of linked texts, links, code; what is empty is left out.

    A table that `sorts` has heads to click on, and a box for words.
    """

    head: str = ""
    anchor: str = ""
    words: str = ""
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[Links]] = ()
    links: Links = ()
    code: str = ""
    sorts: bool = False


def render(view: View) -> str:
    """The text of a page; links in it are relative to its own folder."""
    root = "../" * view.page.count("/")
    template = _environment().get_template(f"{view.template}.html")
    return template.render(root=root, version=__version__, title=view.title, about=view.about, **view.shows)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("tcprobe.pages.site"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["text"] = markup.text
    return environment


def _finalize(value: object) -> object:
    """Text without characters that cannot be printed; markup made here has none."""
    if type(value) is str and not value.isprintable():
        return "\n".join(map(escaped, value.split("\n")))
    return value
