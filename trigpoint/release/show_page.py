"""The page around a picture of a scene: title, facts, scale bar, north arrow, legend, and lines of text beside it.

The same picture and texts give the same bytes (with one version of Pillow). Not here: what is drawn in the scene
(`trigpoint.release.show_canvas`).
"""

import io
import math
import unicodedata
from collections.abc import Sequence
from typing import Any, NamedTuple

from PIL import Image, ImageDraw, ImageFont

from trigpoint.release.show_cards import Section, Tone

Picture = Image.Image
Colour = tuple[int, int, int]

MIN_SIDE_PX = 480
"""Least width of the picture on its page; smaller scenes are enlarged by a whole factor, pixels kept square, until their longer side
has this."""

PAPER: Colour = (255, 255, 255)
INK: Colour = (20, 20, 20)
SOFT: Colour = (90, 90, 90)
TONES: dict[Tone, Colour] = {"plain": INK, "good": (0, 125, 70), "bad": (205, 40, 0), "open": (150, 105, 0), "soft": SOFT}
"""Colours of lines of text."""

_PAD = 10
_STRIP = 52
_BAR_SHARE = 0.25
_PANEL_PX = 330
_LABEL_PX = 140
_PANEL_LINES = 46
_SMOOTH = Image.Resampling.LANCZOS
_BOX = Image.Resampling.BOX
_FINE = 3
"""The north arrow is drawn this much larger and reduced, which smooths it."""


class Scale(NamedTuple):
    """Ground metres per pixel of the picture, and the true azimuth of its up direction."""

    metres_per_px: float
    image_up_deg: float


class _Row(NamedTuple):
    """A line beside the picture: its label, its text and where that starts, font and colour."""

    label: str
    text: str
    left: int
    font: Any
    colour: Colour


def make_page(
    image: Picture,
    title: str,
    facts: Sequence[str],
    scale: Scale,
    legend: Sequence[tuple[str, Colour]],
    sections: Sequence[Section] = (),
    thumbnail: Picture | None = None,
) -> Picture:
    """Set a picture between its title and its strip with scale bar, north arrow and legend; thumbnail and sections stand to its right."""
    beside = _panel(sections, thumbnail) if sections or thumbnail is not None else None
    width = max(image.width, MIN_SIDE_PX) + 2 * _PAD
    page_width = width + (0 if beside is None else beside.width + _PAD)
    large, small = get_font(20), get_font(13)
    lines = [(line, large, INK) for line in _wrap(title, large, page_width - 2 * _PAD)]
    lines += [(line, small, SOFT) for fact in facts for line in _wrap(fact, small, page_width - 2 * _PAD)]
    head = _PAD + sum(_line_height(font) for _, font, _ in lines) + 6
    bar_px, bar_m = _bar(image.width, scale.metres_per_px)
    legend_left = _PAD + bar_px + 74
    items = _flow(legend, small, legend_left, width - _PAD)
    foot = max(_STRIP, 12 + 20 * (1 + max((row for _, _, row, _ in items), default=0)))
    page = Image.new("RGB", (page_width, head + max(image.height + foot, 0 if beside is None else beside.height) + _PAD), PAPER)
    draw = ImageDraw.Draw(page)
    top = _PAD
    for text, font, colour in lines:
        draw.text((_PAD, top), text, font=font, fill=colour)
        top += _line_height(font)
    page.paste(image, ((width - image.width) // 2, head))
    if beside is not None:
        page.paste(beside, (width, head))
    base = head + image.height
    _draw_bar(draw, (_PAD, base + 14), bar_px, bar_m, small)
    page.paste(_north_arrow(scale.image_up_deg), (_PAD + bar_px + 18, base + 6))
    for text, left, row, colour in items:
        y = base + 12 + 20 * row
        draw.rectangle((left, y, left + 12, y + 12), fill=colour, outline=INK)
        draw.text((left + 18, y - 1), text, font=small, fill=INK)
    return page


def contact_sheet(images: Sequence[Picture], columns: int = 2, cell_width_px: int = 760, gap_px: int = 12) -> Picture:
    """Put pictures side by side, row by row, each `cell_width_px` wide, on white; no picture gives one empty cell.

    >>> contact_sheet([Image.new("RGB", (40, 20))] * 3, columns=2, cell_width_px=20, gap_px=2).size
    (46, 26)
    """
    cells = [
        image.convert("RGB").resize((cell_width_px, max(1, round(image.height * cell_width_px / image.width))), _SMOOTH) for image in images
    ]
    rows = [cells[k : k + columns] for k in range(0, len(cells), columns)]
    heights = [max(cell.height for cell in row) for row in rows]
    n_columns = max(1, min(columns, len(cells)))
    sheet = Image.new("RGB", (n_columns * (cell_width_px + gap_px) + gap_px, sum(heights) + gap_px * (len(rows) + 1)), PAPER)
    top = gap_px
    for row, height in zip(rows, heights, strict=True):
        for k, cell in enumerate(row):
            sheet.paste(cell, (gap_px + k * (cell_width_px + gap_px), top))
        top += height + gap_px
    return sheet


def png_bytes(image: Picture) -> bytes:
    """Return a picture as PNG without any metadata: the same picture gives the same bytes."""
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()


def _panel(sections: Sequence[Section], thumbnail: Picture | None) -> Picture:
    """Set sections below each other, labels in a column of their own; lines beyond `_PANEL_LINES` are counted, not drawn."""
    plain, bold = get_font(13), get_font(15)
    rows: list[_Row] = []
    for section in sections:
        rows += [_Row("", "", 0, plain, INK), _Row("", section.heading, 0, bold, INK)]
        column = min(_LABEL_PX, 10 + math.ceil(max((plain.getlength(line.label) for line in section.lines), default=0)))
        for line in section.lines:
            left = column if line.label else 0
            for k, text in enumerate(_wrap(line.text, plain, _PANEL_PX - left)):
                rows.append(_Row(line.label if k == 0 else "", text, left, plain, TONES[line.tone]))
    top = 0
    if thumbnail is None:
        del rows[:1]
    else:
        top = thumbnail.height
    if len(rows) > _PANEL_LINES:
        rows[_PANEL_LINES - 1 :] = [_Row("", f"and {len(rows) - _PANEL_LINES + 1} more lines", 0, plain, SOFT)]
    panel = Image.new("RGB", (_PANEL_PX, top + sum(_line_height(row.font) for row in rows)), PAPER)
    if thumbnail is not None:
        panel.paste(thumbnail, (0, 0))
    draw = ImageDraw.Draw(panel)
    for row in rows:
        draw.text((0, top), printable(row.label), font=row.font, fill=SOFT)
        draw.text((row.left, top), printable(row.text), font=row.font, fill=row.colour)
        top += _line_height(row.font)
    return panel


def _bar(image_width: int, metres_per_px: float) -> tuple[int, float]:
    """Return the length of the scale bar in the picture, px, and on the ground, m: 1, 2 or 5 times a power of ten."""
    longest = _BAR_SHARE * image_width * metres_per_px
    power = 10.0 ** math.floor(math.log10(longest))
    length = max(step * power for step in (1, 2, 5) if step * power <= longest)
    return max(1, round(length / metres_per_px)), length


def _draw_bar(draw: ImageDraw.ImageDraw, at: tuple[int, int], length_px: int, length_m: float, font: Any) -> None:
    x, y = at
    draw.rectangle((x, y, x + length_px, y + 7), fill=PAPER, outline=INK)
    draw.rectangle((x, y, x + length_px // 2, y + 7), fill=INK)
    text = f"{length_m / 1000:g} km" if length_m >= 1000 else f"{length_m:g} m"
    draw.text((x, y + 11), text, font=font, fill=INK)


def _north_arrow(image_up_deg: float, side_px: int = 42) -> Picture:
    """Draw an arrow to true north; N stands at its tip. Seen from the image's up, north lies `image_up_deg` anticlockwise."""
    angle = math.radians(-image_up_deg)
    fine = side_px * _FINE
    image = Image.new("RGB", (fine, fine), PAPER)
    draw = ImageDraw.Draw(image)
    centre = fine / 2

    def point(along: float, across: float) -> tuple[float, float]:
        """Along the arrow and to its right, in shares of half the side."""
        u, v = (math.sin(angle), -math.cos(angle)), (math.cos(angle), math.sin(angle))
        return (centre + centre * (along * u[0] + across * v[0]), centre + centre * (along * u[1] + across * v[1]))

    draw.polygon([point(0.42, 0), point(-0.9, 0.36), point(-0.6, 0)], fill=INK)
    draw.polygon([point(0.42, 0), point(-0.9, -0.36), point(-0.6, 0)], fill=PAPER, outline=INK, width=_FINE)
    draw.text(point(0.72, 0), "N", font=get_font(12 * _FINE), fill=INK, anchor="mm")
    return image.resize((side_px, side_px), _BOX)


def get_font(size: int) -> Any:
    """Return Pillow's own font in a size in pixels."""
    return ImageFont.load_default(size)


_SUBSTITUTES = {"×": "x", "–": "-", "—": "-", "²": "2", "→": "->", "≥": ">=", "≤": "<="}
_BEYOND_ASCII = "©°±´’“”…"


def printable(text: str) -> str:
    """Write a text in the characters that Pillow's own font has: accents are dropped, what remains unknown becomes `?`.

    >>> printable("20 × 30 Département ©")
    '20 x 30 Departement ©'
    """
    shown: list[str] = []
    for character in text:
        if character.isascii() or character in _BEYOND_ASCII:
            shown.append(character)
        elif character in _SUBSTITUTES:
            shown.append(_SUBSTITUTES[character])
        else:
            shown.append(unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode() or "?")
    return "".join(shown)


def _line_height(font: Any) -> int:
    ascent, descent = font.getmetrics()
    return int(ascent + descent + 3)


def _wrap(text: str, font: Any, width_px: int) -> list[str]:
    """Break a text between words so that no line is wider; a single longer word keeps its line."""
    lines: list[str] = []
    for word in printable(text).split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and font.getlength(longer) <= width_px:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines or [""]


def _flow(legend: Sequence[tuple[str, Colour]], font: Any, left: int, right: int) -> list[tuple[str, int, int, Colour]]:
    """Place legend entries (text, x, row, colour) from left to right, row by row."""
    placed: list[tuple[str, int, int, Colour]] = []
    x, row = left, 0
    for text, colour in ((printable(name), colour) for name, colour in legend):
        width = 18 + math.ceil(font.getlength(text)) + 16
        if x > left and x + width > right:
            x, row = left, row + 1
        placed.append((text, x, row, colour))
        x += width
    return placed
