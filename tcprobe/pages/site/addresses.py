"""Addresses of pages, relative to the site's root; they stay, since people link to them.

>>> from tcprobe.pages.site.addresses import fact, slug
>>> fact("mma.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32.a")
'f/mma.m16n8k32.row.col.kind--f8f6f4.f32.e2m1.e2m1.f32.a.html'
>>> slug("NVIDIA H200, driver 580.159.04")
'nvidia-h200-driver-580.159.04'
"""

from __future__ import annotations

import hashlib
import re

PLAYGROUND, TENSOR_MEMORY = "play/banks.html", "tensor-memory.html"
MOST = 80  # characters of a slug


def fact(id_: str) -> str:
    """The page of a fragment."""
    return f"f/{plain(id_)}.html"


def instruction(id_: str) -> str:
    """The page of an instruction."""
    return f"m/{plain(id_)}.html"


def layout(id_: str) -> str:
    """The page of a layout."""
    return f"l/{id_}.html"


def arch(name: str) -> str:
    """The page of an arch."""
    return f"a/{name}.html"


def device(words: str) -> str:
    """The page of a measuring run, named by device and driver."""
    return f"g/{slug(words)}.html"


def compiler(words: str) -> str:
    """The page of a compiler."""
    return f"c/{slug(words)}.html"


def shared_memory_page(name: str) -> str:
    """The page of a swizzle or of an access to shared memory."""
    return f"s/{slug(name)}.html"


def data(id_: str) -> str:
    """The data of a fragment."""
    return f"json/{plain(id_)}.json"


def picture(layout_id: str, bits: int) -> str:
    """The picture of a layout, held in elements of `bits` bits."""
    return f"svg/{layout_id}-{bits}.svg"


def thumbnail(layout_id: str) -> str:
    """The small picture of a layout."""
    return f"svg/{layout_id}-thumb.svg"


def plain(id_: str) -> str:
    """An id without the colons that file systems do not take."""
    return id_.replace("::", "--")


def slug(words: str) -> str:
    """Words from a file as a name: letters, digits, dots; a hash where they are too long or say nothing."""
    short = re.sub(r"[^a-z0-9.]+", "-", words.lower()).strip("-.")
    if 0 < len(short) <= MOST:
        return short
    digest = hashlib.sha256(words.encode()).hexdigest()[:8]
    return f"{short[: MOST - 9].rstrip('-.')}-{digest}".lstrip("-")
