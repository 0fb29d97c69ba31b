"""The whole exception tree, on one page.

    TrigpointError                   every error of ours
      InputError(ValueError)         a record, file or argument breaks its contract      -> never retried
        ConfigError                  the configuration cannot be used
        CrsMismatchError             two geometries or rasters in different frames
        RasterError                  a raster cannot be read or lacks what is needed
        NodataError                  no valid pixel where some are needed
        VectorError                  a vector file cannot be read or lacks what is needed
        OsmError                     an OpenStreetMap file cannot be read
        TaxonomyError                a taxonomy file is inconsistent, or a category unknown
        ProgramError                 a query program is malformed or its anchor denotes none or several
        ReleaseError                 a release folder cannot be read at all
        PredictionError              a prediction file cannot be read at all
        UndecidedError               people must decide first                            -> `trigpoint review`
      FetchError                     an online source did not answer as it should         -> a later build may ask again
      ModelError                     a model adapter failed                               -> a task may retry
      BudgetError                    a language model may not be asked for more money; carries what remains
      CallMissingError               answers are replayed, and one was never recorded
      CatalogueError                 the catalogue is missing, locked or of another version
      ArtefactError                  an artefact is missing or damaged
      LeakageError                   shared content across splits; carries the pairs
      CheckoutError                  a pipeline command was called without the repository

A rejected item is not an exception: stages return `Drop` records. Exceptions are for broken contracts.
"""


class TrigpointError(Exception):
    """Base of every error that trigpoint raises on purpose.

    Attributes:
        remedy: What to do about an item that was quarantined for it.
    """

    remedy = "mend the cause, then `trigpoint retry`"


class InputError(TrigpointError, ValueError):
    """A record, file or argument breaks its contract."""


class ConfigError(InputError):
    """The release configuration cannot be used."""


class CrsMismatchError(InputError):
    """Two geometries or rasters are in different coordinate systems."""


class RasterError(InputError):
    """A raster cannot be read, or lacks what is needed (CRS, bands, bytes)."""


class NodataError(InputError):
    """There is no valid pixel where some are needed."""


class VectorError(InputError):
    """A vector file cannot be read, or lacks what is needed."""


class OsmError(InputError):
    """An OpenStreetMap file cannot be read."""


class TaxonomyError(InputError):
    """A taxonomy is inconsistent, or a category is not in it."""


class ProgramError(InputError):
    """A query program is malformed, or an anchor in it denotes none or several."""


class ReleaseError(InputError):
    """A release folder cannot be read at all."""


class PredictionError(InputError):
    """A prediction file cannot be read at all."""


class UndecidedError(InputError):
    """There is nothing to go on with before people have decided; a retry would find the same."""

    remedy = "decide in `trigpoint review`, then `trigpoint build`"


class FetchError(TrigpointError):
    """An online source did not answer, asked to be left alone, or answered with something that cannot be used."""


class ModelError(TrigpointError):
    """A model adapter failed; the caller may try again."""


class BudgetError(TrigpointError):
    """The budget for a language model does not allow another call; everything that was under way is recorded.

    Attributes:
        remaining: Ids of the targets without answers.
    """

    def __init__(self, message: str, remaining: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.remaining = remaining


class CallMissingError(TrigpointError):
    """Calls of a language model are replayed, and the record has no answer to one of them."""


class CatalogueError(TrigpointError):
    """The catalogue is missing, locked by another process, or of another schema version."""


class ArtefactError(TrigpointError):
    """An artefact is missing or its bytes do not have its digest."""


class LeakageError(TrigpointError):
    """Scenes of different splits share content.

    Attributes:
        pairs: The pairs of scene ids that meet.
    """

    def __init__(self, message: str, pairs: list[tuple[str, str]]) -> None:
        super().__init__(message)
        self.pairs = pairs


class CheckoutError(TrigpointError):
    """A pipeline command needs the repository (flows/, tasks/, storage/), which is not on the path."""
