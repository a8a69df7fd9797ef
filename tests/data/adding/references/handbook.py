"""A reference that nobody wrote: it states nothing of any fragment, and says why."""

NAME = "handbook"
SOURCE = "an invented handbook"
ERRATA = ()


def claim(fragment, device):
    """Why it states nothing."""
    return f"the handbook has no page about {fragment.id} on {device}"
