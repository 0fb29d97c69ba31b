"""The words of claims, as data: what people and models say of overhead imagery, and which measured thing it stands for.

Not here: finding them in a sentence (`trigpoint.language.claims`), and what the ground says (`trigpoint.language.judging`).
"""

from trigpoint.language.parser import Words, words_of

WINDS = ("north", "northeast", "east", "southeast", "south", "southwest", "west", "northwest")
"""Clockwise from north, 45° apart."""

WIND_FORMS = {form: wind for wind in WINDS for form in (wind, f"{wind}ern", wind.replace("th", "th-", 1) if len(wind) > 5 else wind)}

SCREEN = {"left": "west", "right": "east", "top": "north", "upper": "north", "bottom": "south", "lower": "south"}
"""Words of the screen and the wind they stand for on a north-up image."""

ADJACENT = (
    "adjacent to",
    "next to",
    "beside",
    "bordering",
    "borders",
    "alongside",
    "along",
    "abutting",
    "touching",
    "attached to",
    "flanking",
)
NEAR = ("near", "nearby", "close to", "in the vicinity of", "not far from", "a short distance from")
FAR = ("far from", "far away from", "a long way from")
INSIDE = ("inside", "within", "in")
OUTSIDE = ("outside of", "outside")
SURROUNDED = ("surrounded by", "encircled by", "ringed by", "enclosed by", "hemmed in by", "in the midst of", "amid", "amidst", "among")
BETWEEN = ("in between", "sandwiched between", "halfway between", "between")

IMAGE = ("image", "scene", "picture", "frame", "patch", "tile", "photo", "photograph", "view")
CORNERS = ("corner",)
EDGES = ("edge", "border", "margin", "boundary")
HALVES = ("part", "side", "half", "portion", "section", "area", "end", "quadrant", "region", "third")
MIDDLE = ("center", "centre", "middle", "central")
NEGATIONS = ("not", "no", "without", "except", "excluding", "neither", "never")

_COUNTED = words_of(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
)
_TENS = words_of("twenty thirty forty fifty sixty seventy eighty ninety")
NUMBERS = (
    {word: k for k, word in enumerate(_COUNTED)}
    | {word: 10 * k for k, word in enumerate(_TENS, start=2)}
    | {f"{ten}-{unit}": 10 * k + u for k, ten in enumerate(_TENS, start=2) for u, unit in enumerate(_COUNTED[1:10], start=1)}
    | {"single": 1, "sole": 1, "lone": 1, "solitary": 1, "only": 1, "both": 2, "pair": 2, "couple": 2, "trio": 3, "dozen": 12}
)
"""Words that say how many there are."""

QUANTITIES = {
    **dict.fromkeys(("several", "multiple", "few", "various", "group", "cluster", "collection"), "several"),
    **dict.fromkeys(("many", "numerous", "dozens"), "many"),
}
"""Words that say about how many there are."""

PARTIAL = ("some", "most", "half", "part")
"""Words that leave open whether all are meant."""

SUPERLATIVES: dict[str, tuple[str, str]] = {
    "largest": ("area", "most"),
    "biggest": ("area", "most"),
    "longest": ("length", "most"),
    "northernmost": ("north", "most"),
    "southernmost": ("north", "least"),
    "easternmost": ("east", "most"),
    "westernmost": ("east", "least"),
}

SIZES = {
    **dict.fromkeys(("large", "big", "huge", "sizeable", "sizable", "vast", "extensive", "massive"), "large"),
    **dict.fromkeys(("small", "tiny", "little", "minute"), "small"),
}
"""Words of size, which compare with what else is countable in the scene."""

SHAPES = {
    **dict.fromkeys(("elongated", "long", "oblong"), "elongated"),
    **dict.fromkeys(("round", "circular"), "round"),
}

COMPARATIVES = {
    **dict.fromkeys(("larger", "bigger"), "more area"),
    "smaller": "less area",
    "longer": "more length",
    "shorter": "less length",
}

_COLOURS = words_of(
    "red green blue yellow orange white black grey gray brown pink purple beige cream turquoise golden silver dark light bright pale "
    "reddish greenish bluish brownish greyish grayish whitish colored coloured colorful colourful"
)
_MATERIALS = words_of(
    "brick brick-built wooden wood concrete metal metallic steel tin tiled thatched stone glass asphalt gravel paved unpaved"
)
_STYLES = words_of(
    "old modern new ancient traditional historic ornate beautiful typical characteristic distinctive prominent abandoned ruined busy quiet "
    "well-kept pitched gabled flat-roofed multi-storey multi-story two-storey tall high low"
)

UNMEASURED = {
    **dict.fromkeys(_COLOURS, "a colour: not measured"),
    **dict.fromkeys(_MATERIALS, "a material: not measured"),
    **dict.fromkeys(_STYLES, "age, height or style: not measured"),
}
"""Words that nothing here can decide, with what they are."""

PLAIN = frozenset(
    words_of(
        "a an and are area areas at be by can directly exactly from has have immediately in is it its just lies lie lying "
        "locate located of on or place positioned region seen set sits sit situated slightly standing stands structure "
        "structures that the their these this those to visible with all any every each whole entire image scene picture side there"
    )
)
"""Words that claim nothing."""


def why_unmeasured(word: str) -> str:
    """Say what kind of word it is that nothing measured decides.

    >>> why_unmeasured("red-roofed"), why_unmeasured("winding")
    ('a colour: not measured', 'nothing measured decides this word')
    """
    known = UNMEASURED.get(word) or UNMEASURED.get(word.partition("-")[0])
    return known or "nothing measured decides this word"


def trait_forms(phrase: str) -> list[Words]:
    """Return the ways to say a phrase of a further axis: as written, in the plural, and as an adjective.

    >>> [" ".join(words) for words in trait_forms("with a tin roof")]
    ['with a tin roof', 'with tin roofs', 'tin-roofed', 'tin roofed']
    """
    words = words_of(phrase)
    forms = [words]
    if len(words) > 3 and words[:2] in (("with", "a"), ("with", "an")):
        *kind, head = words[2:]
        forms += [("with", *kind, f"{head}s"), ("-".join((*kind, f"{head}ed")),), (*kind, f"{head}ed")]
    return forms
