"""Label Studio's run lengths of brush masks.

A mask is a picture of four channels, row by row, of which the fourth (opacity) says what is painted. Its bytes are packed by
@thi.ng/rle-pack: 32 bits with their number, 5 bits with the bits per value less 1, four times 4 bits with the bits of a length
less 1; then, per piece, one bit (1: one value again and again, 0: values one after the other), two bits that choose among the four
sizes of a length, the length less 1, and the value or values.

Source: HumanSignal/label-studio-converter, label_studio_converter/brush.py (encode_rle, decode_rle); thi-ng/umbrella,
packages/rle-pack. Differs: a pixel is of the mask when it is painted at least half as strongly as the strongest one (brushes have soft
edges, old versions paint with half opacity), whereas the converter takes everything that is not 0.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigpoint.errors import InputError
from trigpoint.masks.rasterise import BoolArray

CHANNELS, WORD_BITS = 4, 8
LENGTH_BITS = (3, 4, 8, 16)
"""Bits of the four sizes of a length, as Label Studio writes them."""

_HEADER_BITS = 32 + 5 + 4 * 4
_PIECE_BITS = 1 + 2 + 16 + WORD_BITS


def encode_brush(mask: BoolArray) -> list[int]:
    """Encode a mask (height, width) of a whole picture; returns bytes as whole numbers.

    >>> encode_brush(np.array([[True, False]]))
    [0, 0, 0, 8, 57, 27, 252, 127, 241, 128, 0]
    """
    flat = mask.ravel()
    starts = np.concatenate([[0], np.flatnonzero(flat[1:] != flat[:-1]) + 1])
    lengths = CHANNELS * np.diff(np.append(starts, flat.size)).astype(np.int64)
    values = np.where(flat[starts], 255, 0).astype(np.int64)
    n_pieces = -(-lengths // (1 << 16))
    last = np.cumsum(n_pieces) - 1
    pieces, painted = np.full(int(n_pieces.sum()), 1 << 16, dtype=np.int64), np.repeat(values, n_pieces)
    pieces[last] = lengths - (n_pieces - 1) * (1 << 16)

    size = np.searchsorted([1 << bits for bits in LENGTH_BITS], pieces)
    bits = np.array(LENGTH_BITS)[size]
    words = (((np.int64(4) + size) << bits | (pieces - 1)) << WORD_BITS) | painted
    used = 3 + bits + WORD_BITS
    place = np.arange(_PIECE_BITS)
    shifts = used[:, None] - 1 - place
    spread = (words[:, None] >> np.maximum(shifts, 0)) & 1
    body = spread[shifts >= 0].astype(np.uint8)
    head = CHANNELS * mask.size
    for width, value in ((5, WORD_BITS - 1), *((4, bits - 1) for bits in LENGTH_BITS)):
        head = head << width | value
    header = np.array([head >> k & 1 for k in reversed(range(_HEADER_BITS))], dtype=np.uint8)
    return np.packbits(np.concatenate([header, body])).tolist()


def decode_brush(rle: Any, height: int, width: int, item: str = "rle") -> BoolArray:
    """Decode the mask of a picture of a known size; nothing is allocated before the sizes are found to agree.

    Raises:
        InputError: not a list of bytes, cut short, or of a picture of another size.

    >>> decode_brush(encode_brush(np.array([[True, False]])), 1, 2).tolist()
    [[True, False]]
    """
    if not isinstance(rle, list) or not all(type(value) is int and 0 <= value <= 255 for value in rle):
        raise InputError(f"{item}: expected a list of whole numbers from 0 to 255")
    source = _Bits(bytes(rle), item)
    total, word_bits = source.read(32), source.read(5) + 1
    sizes = [source.read(4) + 1 for _ in range(4)]
    if total != CHANNELS * height * width or word_bits != WORD_BITS:
        raise InputError(
            f"{item}: it holds {total} values of {word_bits} bits, expected {CHANNELS * height * width} = 4 × {width} × {height} of 8"
        )
    pieces: list[tuple[int, int, int | NDArray[np.uint8]]] = []
    at = 0
    while at < total:
        is_run = source.read(1)
        stop = at + source.read(sizes[source.read(2)]) + 1
        if stop > total:
            raise InputError(f"{item}: a run reaches to value {stop} of {total}")
        value = source.read(WORD_BITS) if is_run else source.words(stop - at)
        if not isinstance(value, int) or value:
            pieces.append((at, stop, value))
        at = stop
    mask = np.zeros((height, width), dtype=bool)
    if not pieces:
        return mask
    # only the rows that something is painted in are laid out
    row_values = CHANNELS * width
    first, end = pieces[0][0] // row_values, -(-pieces[-1][1] // row_values)
    values = np.zeros((end - first) * row_values, dtype=np.uint8)
    for start, stop, value in pieces:
        values[start - first * row_values : stop - first * row_values] = value
    opacity = values[CHANNELS - 1 :: CHANNELS].reshape(end - first, width)
    mask[first:end] = (opacity > 0) & (opacity >= (int(opacity.max()) + 1) // 2)
    return mask


class _Bits:
    """Bytes as a stream of bits, the highest first."""

    def __init__(self, data: bytes, item: str) -> None:
        self._data, self._item, self._at = data, item, 0

    def read(self, n_bits: int) -> int:
        """Take up to 32 bits as a number."""
        first, end = self._at // 8, self._at + n_bits
        if end > 8 * len(self._data):
            raise InputError(f"{self._item}: it is cut short after {len(self._data)} bytes; export it again")
        taken = self._data[first : (end + 7) // 8]
        self._at = end
        return int.from_bytes(taken, "big") >> (-end % 8) & ((1 << n_bits) - 1)

    def words(self, n: int) -> NDArray[np.uint8]:
        """Take n bytes, wherever they begin."""
        start, end = self._at, self._at + WORD_BITS * n
        if end > 8 * len(self._data):
            raise InputError(f"{self._item}: it is cut short after {len(self._data)} bytes; export it again")
        bits = np.unpackbits(np.frombuffer(self._data[start // 8 : (end + 7) // 8], dtype=np.uint8))
        self._at = end
        return np.packbits(bits[start % 8 : start % 8 + WORD_BITS * n])
