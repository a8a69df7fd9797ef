"""Words in colour can be read on a light and on a dark terminal."""

import pytest

from tcprobe.ask.swizzle import INK
from tcprobe.layout.banks import BANKS
from tcprobe.layout.banks import colour_of as colour
from tcprobe.question import terminal

STEPS = (0, 95, 135, 175, 215, 255)  # of a channel in the cube of 216 colours
STYLES = {name: style for name, style in vars(terminal).items() if name.isupper() and isinstance(style, dict)}


def rgb(number):
    """One of the 256 colours; the first 16 are the theme's."""
    assert 16 <= number < 256
    if number >= 232:
        return (8 + 10 * (number - 232),) * 3
    number -= 16
    return STEPS[number // 36], STEPS[number // 6 % 6], STEPS[number % 6]


def luminance(of):
    """Of WCAG 2."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (part / 255 for part in of)]
    return sum(part * weight for part, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", STYLES)
def test_a_colour_is_read_on_white_and_on_black(name):
    """No colour has more than 4.58 to both."""
    shown = rgb(STYLES[name]["fg"])
    assert contrast(shown, (255, 255, 255)) >= 4.4
    assert contrast(shown, (0, 0, 0)) >= 4.4


def test_what_is_written_on_the_colour_of_a_bank():
    assert min(contrast(INK, colour(bank)) for bank in range(BANKS)) >= 7
