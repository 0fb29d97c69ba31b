"""A made-up desk for the review page: scenes of noise, a grid of boxes, a few sentences with every verdict; and a server for browsers."""

import io
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from storage.ledger import LedgerFile
from trigpoint.categories import Taxonomy, load_taxonomy
from trigpoint.config import ReviewConfig
from trigpoint.identity import make_id
from trigpoint.language.grounding import Checked
from trigpoint.masks.crops import record_of_mask
from trigpoint.records.language import Claim
from trigpoint.records.review import MaskValue, SentenceValue
from trigpoint.review.ledger import ReviewItem
from trigpoint.review.page import make_app
from trigpoint.review.page_board import Board
from trigpoint.review.page_desk import Desk, DeskScene, Picture, Sentence
from trigpoint.review.page_guard import Sessions
from trigpoint.review.page_serve import bind_door, server_of

ROOT = Path(__file__).parents[1]
CATEGORIES = (("building", "tin_roof"), ("building", "concrete_roof"), ("school", "tin_roof"), ("tree",))


class MadeUpDesk:
    """The desk; `check` calls a text with "wrong" contradicted, one with "perhaps" undecidable, all others supported."""

    def __init__(
        self,
        folder: Path,
        n_scenes: int = 2,
        n_side: int = 4,
        size_px: int = 240,
        review: dict[str, Any] | None = None,
        title: str = "Made up",
        is_ragged: bool = False,
        inseparable: Collection[tuple[int, int]] = (),
    ) -> None:
        self.name, self.title, self.seed = "made-up 1", title, 7
        self.taxonomy: Taxonomy = load_taxonomy(ROOT / "taxonomy" / "settlement.v1.yaml")
        self.review = ReviewConfig.model_validate(review or {"policy": "single"})
        self.ledger = LedgerFile(folder / "reviews")
        self.n_checks = 0
        self.size_px, self.n_side, self._is_ragged = size_px, n_side, is_ragged
        self._inseparable = inseparable
        self.scenes: Sequence[DeskScene] = [self._scene(k) for k in range(n_scenes)]
        self._about: dict[str, Sentence] = {}
        items: list[ReviewItem] = []
        for scene in self.scenes:
            masks = self._masks(scene.scene_id)
            items += [*masks, *self._sentences(scene.scene_id, [item.item_id for item in masks])]
        self.items: Sequence[ReviewItem] = items

    def _scene(self, k: int) -> DeskScene:
        return DeskScene(
            make_id("s", k), "made", self.size_px, self.size_px, "EPSG:32645", (0.5, 0, 354000, 0, -0.5, 3057000), 0.5,
            f"202{k % 10}-06-01", "series-1", "made for the tests",
        )  # fmt: skip

    def _masks(self, scene_id: str) -> list[ReviewItem]:
        step = self.size_px // self.n_side
        found: list[ReviewItem] = []
        for row in range(self.n_side):
            for col in range(self.n_side):
                box = np.zeros((self.size_px, self.size_px), dtype=bool)
                top, left, side = row * step + step // 8, col * step + step // 6, 5 * step // 8
                if self._is_ragged:
                    box[top : top + side, left : left + side] = _blob(side, 100 * row + col)
                else:
                    box[top : top + side, left : left + side - (row + col) % 3] = True
                category = CATEGORIES[(row + 2 * col) % len(CATEGORIES)]
                separable = (row, col) not in self._inseparable
                item_id = make_id("i", scene_id, row, col)
                value = MaskValue(mask=record_of_mask(box), category=category, separable=separable)
                found.append(ReviewItem(item_id, "mask", scene_id, value))
        return found

    def _sentences(self, scene_id: str, instance_ids: list[str]) -> list[ReviewItem]:
        found: list[ReviewItem] = []
        for kind, text in (
            ("referring", "the buildings perhaps north of the road"),
            ("vocabulary", "sheds"),
            ("negative", "swimming pool"),
        ):
            item_id = make_id("t", scene_id, text)
            form = "vocabulary" if kind == "negative" else kind
            polarity = "negative" if kind == "negative" else "positive"
            self._about[item_id] = Sentence(form, polarity, "building", tuple(instance_ids[:4]), _checked(text), "")  # type: ignore[arg-type]
            found.append(ReviewItem(item_id, kind, scene_id, SentenceValue(text=text)))  # type: ignore[arg-type]
        return found

    def picture(self, scene_id: str) -> Picture:
        random = np.random.default_rng(int(scene_id[2:10], 16))
        small = random.integers(60, 160, (self.size_px // 8, self.size_px // 8, 3), dtype=np.uint8)
        image = Image.fromarray(small).resize((self.size_px, self.size_px), Image.Resampling.BICUBIC)
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=90)
        return Picture(buffer.getvalue(), "image/jpeg", 1.0)

    def sentence(self, item_id: str) -> Sentence:
        return self._about[item_id]

    def check(self, item_id: str, text: str) -> Checked:
        self.n_checks += 1
        return _checked(text)


def _blob(side: int, seed: int) -> NDArray[np.bool_]:
    """A round thing with a rough edge, (side, side)."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[:side, :side] - (side - 1) / 2
    angle = np.arctan2(y, x)
    radius = 0.36 * side * (1 + sum(random.uniform(-0.12, 0.12) * np.cos(k * angle + random.uniform(0, 6)) for k in range(2, 12)))
    return np.hypot(x, y) <= radius


def _checked(text: str) -> Checked:
    for word, verdict in (("wrong", "contradicted"), ("perhaps", "undecidable")):
        if word in text:
            return Checked(verdict, (Claim(kind="direction", text=word, verdict=verdict, measured="41.0° ± 6.0°"),))  # type: ignore[arg-type]
    return Checked("supported", (Claim(kind="category", text=text, verdict="supported", measured="a name"),))


class Served(NamedTuple):
    """A page that is being served.

    Attributes:
        url: Without a token.
        log: What the server's own log said.
    """

    board: Board
    sessions: Sessions
    url: str

    def link(self) -> str:
        """A link for one browser."""
        return f"{self.url}/#token={self.sessions.new_link()}"


@contextmanager
def served(desk: Desk, sessions: Sessions | None = None, port: int = 0) -> Iterator[Served]:
    """Serve a desk in a thread, as the command does."""
    sessions = sessions or Sessions()
    door = bind_door("127.0.0.1", port)
    number = int(door.getsockname()[1])
    board = Board(desk)
    board.warm()
    server = server_of(make_app(board, sessions, "127.0.0.1", number))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [door]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield Served(board, sessions, f"http://127.0.0.1:{number}")
    finally:
        server.should_exit = True
        thread.join(10)
        door.close()
