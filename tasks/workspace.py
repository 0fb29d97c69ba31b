"""Where a build works: configuration, artefact store, catalogue, taxonomy. Opened by path, so that other processes can."""

from collections.abc import Callable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from storage.artefacts import ArtefactStore
from storage.digests import source_digest
from storage.ledger import LedgerFile
from trigpoint.categories import Taxonomy, load_taxonomy
from trigpoint.config import ReleaseConfig, check_files, check_licences, check_names, load_config
from trigpoint.errors import ConfigError


class Workspace:
    """One release being built.

    Attributes:
        config_path: The YAML file.
        config: What it says, with `overrides` of the `run` block applied.
        may_fetch: Whether this process may ask the web for what no snapshot answers: the one that builds.
        say: Told how far fetching is; who builds hands it to who watches.
    """

    def __init__(self, config_path: Path, overrides: dict[str, Any] | None = None) -> None:
        self.config_path = config_path
        config = load_config(config_path)
        run = config.run.model_copy(update={k: v for k, v in (overrides or {}).items() if v is not None})
        self.overrides = dict(overrides or {})
        self.may_fetch = False
        self.say: Callable[[str], None] = lambda _text: None
        self.config: ReleaseConfig = config.model_copy(update={"run": run})

    def check(self) -> None:
        """Check everything that can be checked before any work.

        Raises:
            ConfigError: an input file is missing, the configuration names a category or axis that the taxonomy lacks, or a
                licence does not allow the release.
            TaxonomyError: the taxonomy cannot be used.
        """
        missing = check_files(self.config)
        if missing:
            raise ConfigError(f"configuration {self.config_path}: {len(missing)} input file(s) are missing:\n  " + "\n  ".join(missing))
        problems = check_names(self.config) + check_licences(self.config) + self._shared_rasters()
        if problems:
            raise ConfigError(f"configuration {self.config_path} has {len(problems)} problem(s):\n  " + "\n  ".join(problems))

    def _shared_rasters(self) -> list[str]:
        """One line per source whose raster another source has too: a scene belongs to one source."""
        first: dict[str, str] = {}
        problems: list[str] = []
        for source in self.config.sources:
            imagery = source.imagery
            is_file = imagery.path is not None and not imagery.is_fetched
            said = imagery.model_dump_json(include={"path", "cog", "stac", "tiles", "bbox", "around"})
            owner = first.setdefault(self.digest(imagery.path) if is_file and imagery.path is not None else said, source.name)
            if owner != source.name:
                problems.append(f"sources.{source.name}.imagery: is the raster of source {owner!r}; merge the two into one source")
        return problems

    @property
    def work(self) -> Path:
        """Folder of intermediate state."""
        return self.config.run.work

    @cached_property
    def store(self) -> ArtefactStore:
        """The artefact store."""
        return ArtefactStore(self.config.run.store or self.work / "store")

    @cached_property
    def catalogue(self) -> Any:
        """The catalogue; only the flow's own process writes to it."""
        from storage.catalogue import Catalogue

        self.work.mkdir(parents=True, exist_ok=True)
        return Catalogue(self.work / "catalogue.duckdb", wait_s=self.config.run.catalogue_wait_s)

    @property
    def reviews_folder(self) -> Path:
        """Where the ledger of review is: `run.reviews`, else `reviews` in the store, or in the work folder when that is a URL."""
        run = self.config.run
        store = (run.store or str(self.work / "store")).removeprefix("file://")
        return run.reviews or (self.work if "://" in store else Path(store)) / "reviews"

    @cached_property
    def ledger(self) -> LedgerFile:
        """The ledger of review."""
        return LedgerFile(self.reviews_folder)

    @cached_property
    def taxonomy(self) -> Taxonomy:
        """The taxonomy of the release."""
        return load_taxonomy(self.config.taxonomy)

    def digest(self, path: Path) -> str:
        """SHA-256 of an input file, remembered by path, size and time of change."""
        return source_digest(path, self.work / "source_digests.json")


@lru_cache(maxsize=4)
def _opened(config_path: str, overrides: tuple[tuple[str, Any], ...]) -> Workspace:
    return Workspace(Path(config_path), dict(overrides))


def open_workspace(config_path: Path | str, overrides: dict[str, Any] | None = None) -> Workspace:
    """Open a workspace once per worker process and configuration; worker processes end with their build."""
    return _opened(str(config_path), tuple(sorted((overrides or {}).items())))
