"""A kind of finding that tcprobe does not have: how many bytes lie between what two neighbouring lanes write."""

from typing import Annotated

import msgspec

from tcprobe.errors import DataError
from tcprobe.store.finding import makers

METHODS = ("live",)
WIDTHS = {"narrow": 4, "wide": 16}


class Body(msgspec.Struct, forbid_unknown_fields=True):
    """Bytes from lane to lane."""

    bytes: Annotated[int, msgspec.Meta(gt=0)]


def check(finding):
    """DataError unless it is of a width, and no lane writes where another does."""
    if finding.body.bytes < WIDTHS.get(finding.subject, 1 << 30):
        raise DataError(f"{finding.subject}: lanes that are {finding.body.bytes} bytes apart.")


def essence(body):
    """All of it."""
    return body


def words(findings):
    """How far lanes are apart."""
    return f"{makers(findings)}: {', '.join(f'{f.subject} {f.body.bytes} bytes' for f in findings)}"
