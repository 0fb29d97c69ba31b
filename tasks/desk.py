"""What reviewers see of a release being built: the masks and sentences of the last build, pictures, the check of sentences.

Everything is read when the desk is opened; the catalogue is not held. Not here: decisions (`storage.ledger`), the page itself.
"""

import io
from collections.abc import Sequence

from PIL import Image

from storage.rasters import read_scene_tif
from tasks.language import released_language
from tasks.last_build import proposed_masks, whole_results
from tasks.query import items_with_pois
from tasks.review import SentenceCheck
from tasks.scenes import SceneInput, collected_scenes
from tasks.stages import STAGES, steps_of
from tasks.steps import Done
from tasks.workspace import Workspace
from trigpoint.errors import InputError
from trigpoint.imagery.view import rgb_of_patch
from trigpoint.language.grounding import Checked
from trigpoint.records.language import LanguageItem, LanguageTarget
from trigpoint.records.stage import StageName
from trigpoint.review.ledger import ReviewItem
from trigpoint.review.page_desk import DeskScene, Picture, Sentence
from trigpoint.review.sentences import is_for_people, review_item_of

LAST_STAGE: StageName = "language"
"""The stage up to which a build must have come."""

MAX_PICTURE_PX = 4096
"""Longest side of a picture for the browser; larger scenes are reduced in it."""

_EXACT_PX = 1 << 20


def stages_before_review() -> tuple[StageName, ...]:
    """Return the stages whose results reviewers see, in order."""
    return STAGES[: STAGES.index(LAST_STAGE) + 1]


def results_for_review(workspace: Workspace) -> Done:
    """Return what the last build made, when a new one would make the same.

    Raises:
        InputError: a step has work to do first; says which.
    """
    return whole_results(workspace, (step for stage in stages_before_review() for step in steps_of(stage)))


class WorkspaceDesk:
    """The desk of one release (see `trigpoint.review.page_desk.Desk`).

    Args:
        workspace: The release being built.
        done: Results of the steps up to `LAST_STAGE`, of a build or as `tasks.last_build` finds them.
        scene_ids: Only these scenes; none: all.

    Raises:
        InputError: a scene is not there.
    """

    def __init__(self, workspace: Workspace, done: Done, scene_ids: Sequence[str] = ()) -> None:
        config = workspace.config
        self.name, self.title = f"{config.name} {config.version}", config.title
        self.taxonomy, self.review, self.seed = workspace.taxonomy, config.review, config.seed
        entries = {entry.scene.scene_id: entry for entry in collected_scenes(workspace, done)}
        missing = sorted(set(scene_ids) - set(entries))
        if missing:
            raise InputError(f"there is no scene {missing[0]!r} here; the first are {', '.join(sorted(entries)[:3])}")
        self._entries = {key: entry for key, entry in entries.items() if not scene_ids or key in scene_ids}
        self._workspace = workspace
        self.scenes: Sequence[DeskScene] = [_desk_scene(entry) for entry in self._entries.values()]
        self.ledger = workspace.ledger
        self._sentences: dict[str, LanguageItem] = {}
        self._targets: dict[str, LanguageTarget] = {}
        self._checks: dict[str, SentenceCheck] = {}
        self.items: Sequence[ReviewItem] = [*self._masks(done), *self._read_language(done)]

    def _masks(self, done: Done) -> list[ReviewItem]:
        return proposed_masks(self._workspace, [result for result in done["annotate"] if result.item_id in self._entries])

    def _read_language(self, done: Done) -> list[ReviewItem]:
        if not done["language"]:
            return []
        targets, items = released_language(self._workspace, [result for result in done["language"] if result.item_id in self._entries])
        self._targets = {target.annotation_id: target for target in targets}
        self._sentences = {item.item_id: item for item in items if is_for_people(item)}
        for item in items_with_pois(self._workspace, done, ("boxes", "graph")):
            here = [target for target in targets if target.scene_id == item.item_id]
            self._checks[item.item_id] = SentenceCheck(self._workspace, item, here)
        return [review_item_of(item) for item in self._sentences.values()]

    def picture(self, scene_id: str) -> Picture:
        """Return the picture of a scene: every pixel of a small one, a good JPEG of a large one.

        Raises:
            KeyError: there is no such scene.
            ArtefactError: its file is damaged.
        """
        patch = read_scene_tif(self._workspace.store.get_bytes(self._entries[scene_id].image))
        image = Image.fromarray(rgb_of_patch(patch).array)
        longest = max(image.size)
        buffer = io.BytesIO()
        if image.width * image.height <= _EXACT_PX:
            image.save(buffer, "PNG", compress_level=1)
            return Picture(buffer.getvalue(), "image/png", 1.0)
        image.thumbnail((MAX_PICTURE_PX, MAX_PICTURE_PX))
        image.save(buffer, "JPEG", quality=92, subsampling=0)
        return Picture(buffer.getvalue(), "image/jpeg", max(image.size) / longest)

    def sentence(self, item_id: str) -> Sentence:
        """Return what a proposed sentence is about.

        Raises:
            KeyError: there is no such sentence.
        """
        item = self._sentences[item_id]
        target = self._targets[item.annotation_id]
        is_right = item.state == "corrected"  # the claims are those of the sentence before it was put right
        claims = tuple(claim for claim in item.claims if not is_right or claim.verdict == "supported")
        checked = Checked("supported" if is_right else item.verdict, claims)
        note = f"put right by the ground, was {item.original!r}" if is_right else item.reason
        return Sentence(item.form, item.polarity, target.name, target.instance_ids, checked, note)

    def check(self, item_id: str, text: str) -> Checked:
        """Hold a text for a sentence against the scene as it was last built.

        Raises:
            KeyError: there is no such sentence.
        """
        item = self._sentences[item_id]
        return self._checks[item.scene_id](item, text)


def _desk_scene(entry: SceneInput) -> DeskScene:
    scene = entry.scene
    return DeskScene(
        scene_id=scene.scene_id,
        source=scene.source,
        width=scene.width,
        height=scene.height,
        crs=scene.crs,
        transform=scene.transform,
        gsd_m=scene.frame.gsd_m,
        acquired=scene.acquired,
        series_id=scene.series_id,
        attribution=scene.attribution,
    )
