"""Licences as data: what each asks of a layer, and under which one licence the sources of a layer can be released.

The terms stand in taxonomy/licences.v1.yaml; nothing in code names a licence. This is bookkeeping, no legal advice.
"""

import difflib
from collections.abc import Iterable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import ValidationError, model_validator

from trigpoint.documents import read_yaml, told_all
from trigpoint.errors import ConfigError
from trigpoint.records.base import Record

Layer = Literal["pixels", "annotations"]
"""The two things in a release that have licences of their own."""

LAYERS: tuple[Layer, ...] = ("pixels", "annotations")


class Terms(Record):
    """What a licence asks: see the head of taxonomy/licences.v1.yaml."""

    attribution: bool = False
    share_alike: bool = False
    non_commercial: bool = False
    no_derivatives: bool = False
    redistribution: bool = True


class Licence(Terms):
    """One licence.

    Attributes:
        pixels, annotations: Terms that differ for that layer.
        also_as: Licences under which share-alike material may be passed on as well.
    """

    id: str
    name: str
    url: str | None
    basis: Literal["reviewed", "unreviewed"]
    pixels: dict[str, bool] = {}
    annotations: dict[str, bool] = {}
    also_as: tuple[str, ...] = ()
    note: str | None = None

    def terms(self, layer: Layer) -> Terms:
        """Return what it asks of a layer."""
        general = {name: getattr(self, name) for name in Terms.model_fields}
        return Terms.model_validate({**general, **(self.pixels if layer == "pixels" else self.annotations)})


class Licences(Record):
    """The file of licences."""

    name: str
    version: int
    licences: tuple[Licence, ...]

    @model_validator(mode="after")
    def _check(self) -> "Licences":
        if len(self.by_id) != len(self.licences):
            raise ValueError("a licence id appears twice")
        for licence in self.licences:
            unknown = [name for name in licence.also_as if self.find(name) is None]
            if unknown:
                raise ValueError(f"licence {licence.id!r}: also_as names {', '.join(unknown)}, which is not in the file")
            for layer in LAYERS:
                licence.terms(layer)
        return self

    @cached_property
    def by_id(self) -> dict[str, Licence]:
        """Licence by its id in lower case."""
        return {licence.id.casefold(): licence for licence in self.licences}

    def find(self, licence_id: str) -> Licence | None:
        """Return a licence by its id, whatever its case."""
        return self.by_id.get(licence_id.casefold())

    def nearest(self, licence_id: str) -> list[str]:
        """Return the known ids most like one."""
        near = difflib.get_close_matches(licence_id.casefold(), list(self.by_id), n=3, cutoff=0.4)
        return [self.by_id[name].id for name in near]


class LicensedPart(NamedTuple):
    """One input: where the configuration names it, its layer and licence id."""

    place: str
    layer: Layer
    licence: str


def why_not(source: Licence, declared: Licence, layer: Layer) -> str | None:
    """Say why material under one licence cannot be in a layer that is released under another; None if it can."""
    asks, gives = source.terms(layer), declared.terms(layer)
    if not asks.redistribution:
        return "does not allow passing on"
    if asks.no_derivatives and layer == "annotations":
        return "allows nothing derived from it, and a release's masks and relations are"
    if source.id == declared.id:
        return None
    if asks.no_derivatives:
        return "allows passing on under itself alone"
    if asks.share_alike:
        return None if declared.id in source.also_as else "is share-alike: it allows passing on under itself alone"
    if asks.non_commercial and not gives.non_commercial:
        return f"is non-commercial, and {declared.id} allows profit"
    if asks.attribution and not gives.attribution:
        return f"asks for attribution, and {declared.id} lets people drop it"
    return None


def licence_problems(parts: Iterable[LicensedPart], declared: dict[Layer, str], known: Licences) -> list[str]:
    """Return one line per input whose licence is unknown or cannot be released as declared, and per layer that fits no one licence."""
    problems: list[str] = []
    listed = list(dict.fromkeys(parts))
    for layer in LAYERS:
        found: list[tuple[LicensedPart, Licence]] = []
        for part in listed:
            if part.layer == layer:
                licence = known.find(part.licence)
                if licence is None:
                    problems.append(f"{part.place}: licence {part.licence!r} of its {layer} {_unknown(part.licence, known)}")
                else:
                    found.append((part, licence))
        problems += _layer_problems(layer, found, declared.get(layer), known)
    return problems


def _unknown(licence_id: str, known: Licences) -> str:
    near = known.nearest(licence_id)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(licence.id for licence in known.licences)}."
    return f"is not in taxonomy/{known.name}.v{known.version}.yaml; {hint} Another one has to be added there with its terms"


def _layer_problems(layer: Layer, found: list[tuple[LicensedPart, Licence]], declared_id: str | None, known: Licences) -> list[str]:
    if declared_id is not None:
        declared = known.find(declared_id)
        if declared is None:
            return [f"licences.{layer}: {declared_id!r} {_unknown(declared_id, known)}"]
        if not declared.terms(layer).redistribution:
            return [f"licences.{layer}: {declared.id} does not allow passing on, so nothing can be released under it"]
        return [
            f"{part.place}: its {layer} are under {licence.id}, which {reason}; {_advice(layer, found, known)}"
            for part, licence in found
            if (reason := why_not(licence, declared, layer)) is not None
        ]
    never = [
        f"{part.place}: its {layer} are under {licence.id}, which {reason}; leave this source out"
        for part, licence in found
        if (reason := why_not(licence, licence, layer)) is not None
    ]
    if never:
        return never
    if not found or any(all(why_not(licence, one, layer) is None for _, licence in found) for _, one in found):
        return []
    names = sorted({licence.id for _, licence in found})
    places = "; ".join(f"{part.place} {licence.id}" for part, licence in found)
    return [f"licences.{layer}: {' and '.join(names)} cannot be in one release ({places}); {_advice(layer, found, known)}"]


def _advice(layer: Layer, found: list[tuple[LicensedPart, Licence]], known: Licences) -> str:
    """Say which licences all sources of a layer could be released under."""
    own = {licence.id for _, licence in found}
    fitting = [one.id for one in known.licences if all(why_not(licence, one, layer) is None for _, licence in found)]
    fitting.sort(key=lambda name: name not in own)
    if fitting:
        return f"declare licences.{layer}: {' or '.join(fitting[:3])}, or leave the source out"
    return "no known licence fits all sources; leave one out, or make two releases"


def licences_file() -> Path:
    """Return the file of the licences that come with trigpoint."""
    packed = Path(__file__).with_name("licences.v1.yaml")  # in a wheel; the checkout has it beside the taxonomies
    return packed if packed.is_file() else Path(__file__).parents[1] / "taxonomy" / "licences.v1.yaml"


@lru_cache(maxsize=1)
def known_licences() -> Licences:
    """Read the licences that come with trigpoint.

    Raises:
        ConfigError: the file is missing or inconsistent.
    """
    return load_licences(licences_file())


def load_licences(path: Path) -> Licences:
    """Read and check a file of licences.

    Raises:
        ConfigError: it is missing, no YAML, or inconsistent; says where.
    """
    data = read_yaml(path, "licences", ConfigError, "check the installation")
    try:
        return Licences.model_validate(data)
    except ValidationError as error:
        raise ConfigError(f"licences {path}: {told_all(error)}") from error
