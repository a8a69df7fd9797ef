"""A site of the published tables, made once for all tests of a run, and what parses its pages."""

import functools
import json
import re
from html.parser import HTMLParser

from tcprobe.pages.site.build import build
from tcprobe.pages.site.facts import gather
from tcprobe.store.choose import alone
from tcprobe.store.results import published


@functools.cache
def facts():
    return gather(alone(published()))


@functools.cache
def pages():
    """All files of the site."""
    return build(facts())


@functools.cache
def distinct():
    """A fact for each layout that pages draw, and width of its elements: pages of others differ in words only."""
    drawn = {(fact.each[0].table.id, fact.fragment.slot_bits): fact for fact in facts().facts.values()}
    return tuple(drawn.values())


class Page(HTMLParser):
    """Elements of a page as (tag, attributes, text); tables as rows of (tag, span, text)."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.tables, self.links = [], [], []
        self._open = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.elements.append((tag, given))
        self.links += [given[name] for name in ("href", "src") if name in given]
        if tag == "table":
            self.tables.append((given.get("class", ""), []))
        elif tag == "tr":
            self.tables[-1][1].append([])
        elif tag in ("td", "th") and self.tables and self.tables[-1][1]:
            self._open = [tag, int(given.get("colspan", 1)), ""]
            self.tables[-1][1][-1].append(self._open)

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self._open = None

    def handle_data(self, data):
        if self._open:
            self._open[2] += data

    def of_class(self, name):
        return [rows for kind, rows in self.tables if kind == name]


def data_of(text):
    """The data that a page gives the script."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


def archs_of(data):
    """By arch the numbers of its layout and of its evidence."""
    return {arch: at for names, at in data["archs"].items() for arch in names.split()}
