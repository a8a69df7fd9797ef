"""What `compare` tries on a table that somebody states, and what it says, as data: the site's script reads the same.

>>> from tcprobe.ask.diagnosis import WORDS
>>> WORDS["registers"].format(1, 2)
'registers 1 and 2 exchanged'
"""

from __future__ import annotations

from tcprobe.values import Json

SLOT_STARTS = ((0, 0), (1, 0), (0, 1), (1, 1))  # what lanes and elements may be counted from, in the order tried
CELL_STARTS = ((0, 0), (1, 1), (1, 0), (0, 1))  # the same of rows and columns, as named and then transposed
MOST = 5  # changes of order that are spelt out one by one
FIRST = 3  # slots that differ, of which each is shown

WORDS = {
    "transposed": "transposed: row and column are swapped",
    "from 1": "{} counted from 1",
    "lane": "lanes",
    "i": "elements (i)",
    "row": "rows",
    "col": "columns",
    "bits": "lane bits {} exchanged",
    "bit order": "lane bits in another order: {}",
    "bit": "bit {} is bit {}",
    "xor": "lanes XORed with {}",
    "lanes": "lanes in another order: {}",
    "registers": "registers {} and {} exchanged",
    "register order": "registers in another order: {}",
    "halves": "elements inside each register in reverse order: the low bits come first",
    "elements": "elements (i) in another order: {}",
    "order": "stated {}",
    "moved": "{} is {}",
    "more": " and {} more",
    "differs": "{}: stated {}, measured {}",
    "holes": "{} {}",
    "hole": ", i = {}",
    "outputs": "the table has {}; the fragment has {}.",
    "size": "the table has {} lanes x {} elements; the fragment has {} x {}.",
    "agree": "{} of {} slots agree",
    "missing": "; {} slots are not stated: {}",
    "diagnosis": "diagnosis: {}",
    "cured": "With that change every stated slot agrees.",
    "elsewhere": "this is: {}",
    "renumbered": "The two differ only by a renumbering of rows or columns, which the hardware cannot distinguish.",
}


def to_json() -> Json:
    """All of it, as the page that compares has it."""
    return {"slots": SLOT_STARTS, "cells": CELL_STARTS, "most": MOST, "first": FIRST, "words": WORDS}
