"""The official package with a micro checkpoint: what goes in and comes out is right; what the masks show means nothing."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.sam2_micro import Micro, make_micro
from trigpoint.errors import ConfigError, ModelError
from trigpoint.masks.crops import record_of_mask
from trigpoint.proposals import sam2
from trigpoint.proposals.masks import crop_iou
from trigpoint.proposals.prompts import points_of_obb
from trigpoint.proposals.proposer import Answer, ArrayPicture
from trigpoint.proposals.scene import Cleaning, settle_answers
from trigpoint.proposals.settings import Sam2Settings
from trigpoint.proposals.tiles import Tiling, ask_scene
from trigpoint.records.proposal import AutomaticPrompt, BoxPrompt, MaskPrompt, PointsPrompt, Prompt

pytestmark = pytest.mark.sam2
HEIGHT, WIDTH = 80, 96


def prompt(shape: BoxPrompt | PointsPrompt | MaskPrompt | AutomaticPrompt, name: str = "x") -> Prompt:
    return Prompt(shape=shape, origin="drawn", source_id=name)


def boxes(n: int) -> list[Prompt]:
    return [prompt(BoxPrompt(box_px=(5 + 3 * k, 6 + 2 * k, 40 + 3 * k, 44 + 2 * k)), f"box {k}") for k in range(n)]


def mask_prompt() -> MaskPrompt:
    mask = np.zeros((HEIGHT, WIDTH), dtype=bool)
    mask[20:50, 30:70] = True
    return MaskPrompt(mask=record_of_mask(mask))


@pytest.fixture(scope="session")
def micro(tmp_path_factory: pytest.TempPathFactory) -> Micro:
    return make_micro(tmp_path_factory.mktemp("sam2"))


def settings(micro: Micro, **changes: Any) -> Sam2Settings:
    said = {"points_per_side": 2, "min_predicted_iou": 0, "min_stability": 0, "device": "cpu", **changes}
    return Sam2Settings(checkpoint=micro.checkpoint, config_file=micro.config_file, **said)


@pytest.fixture(scope="session")
def proposer(micro: Micro) -> sam2.Sam2Proposer:
    return sam2.Sam2Proposer(settings(micro, batch_size=4), "a" * 64)


@pytest.fixture(scope="session")
def image() -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 255, (HEIGHT, WIDTH, 3), dtype=np.uint8)


def test_it_says_who_it_is(proposer: sam2.Sam2Proposer) -> None:
    identity = proposer.identity

    assert (identity.proposer, identity.model, identity.device, identity.weights_sha256) == ("sam2", "sam2_micro", "cpu", "a" * 64)
    assert identity.version.startswith("sam2 1.")
    assert {"torch", "torchvision", "sam2"} <= set(proposer.versions)


def test_prompts_of_all_kinds_at_once_are_answered_in_their_order(proposer: sam2.Sam2Proposer, image: NDArray[np.uint8]) -> None:
    obb = points_of_obb(np.array([[20.0, 10], [70, 40], [60, 56], [10, 26]]), HEIGHT, WIDTH)
    asked = [
        prompt(PointsPrompt(points_px=((40, 40),), labels=(1,))),
        *boxes(2),
        prompt(obb),
        prompt(mask_prompt()),
        prompt(AutomaticPrompt()),
        *boxes(1),
    ]

    answers = proposer.propose(image, asked)

    places = [answer.prompt for answer in answers]
    assert places == sorted(places)
    assert set(places) - {5} == {0, 1, 2, 3, 4, 6}
    assert places.count(5) > 1
    for answer in answers:
        rows, cols = answer.crop.slices
        assert 0 <= rows.start < rows.stop <= HEIGHT
        assert 0 <= cols.start < cols.stop <= WIDTH
        assert answer.crop.mask.any()
        assert answer.score is not None


def test_the_adapter_gives_what_the_official_predictor_gives(proposer: sam2.Sam2Proposer, image: NDArray[np.uint8]) -> None:
    predictor = proposer._predictor
    predictor.set_image(image)
    box, box_score, _ = predictor.predict(box=np.array([5.0, 6, 40, 44]), multimask_output=False)
    point, point_scores, _ = predictor.predict(point_coords=np.array([[40.0, 40]]), point_labels=np.array([1]), multimask_output=True)
    best = int(np.argmax(point_scores))

    answers = proposer.propose(image, [*boxes(1), prompt(PointsPrompt(points_px=((40, 40),), labels=(1,)))])

    assert np.array_equal(full(answers[0]), box[0] > 0)
    assert np.array_equal(full(answers[1]), point[best] > 0)
    assert [answer.score for answer in answers] == pytest.approx([float(box_score[0]), float(point_scores[best])], abs=1e-6)


def full(answer: Answer) -> NDArray[np.bool_]:
    mask = np.zeros((HEIGHT, WIDTH), dtype=bool)
    mask[answer.crop.slices] = answer.crop.mask
    return mask


def test_a_mask_prompt_changes_the_answer_to_its_box(proposer: sam2.Sam2Proposer, image: NDArray[np.uint8]) -> None:
    shape = mask_prompt()
    answers = proposer.propose(image, [prompt(shape), prompt(BoxPrompt(box_px=(30, 20, 70, 50)))])

    assert not np.array_equal(full(answers[0]), full(answers[1]))


@pytest.mark.parametrize("batch_size", [1, 64])
def test_the_batch_size_changes_nothing_beyond_rounding(
    micro: Micro, proposer: sam2.Sam2Proposer, image: NDArray[np.uint8], batch_size: int
) -> None:
    asked = [*boxes(7), prompt(AutomaticPrompt())]
    here = proposer.propose(image, asked)

    there = sam2.Sam2Proposer(settings(micro, batch_size=batch_size), "a" * 64).propose(image, asked)

    assert [answer.prompt for answer in there] == [answer.prompt for answer in here]
    for one, other in zip(here, there, strict=True):
        assert crop_iou(one.crop, other.crop) >= 0.999
        assert one.score == pytest.approx(other.score, abs=1e-4)


def test_no_mask_at_all_is_no_answer(micro: Micro, image: NDArray[np.uint8]) -> None:
    strict = sam2.Sam2Proposer(settings(micro, min_predicted_iou=1), "a" * 64)

    assert strict.propose(image, [prompt(AutomaticPrompt())]) == []


def test_a_tiled_pass_gives_proposals_of_the_scene(proposer: sam2.Sam2Proposer) -> None:
    rgb = np.random.default_rng(1).integers(0, 255, (60, 100, 3), dtype=np.uint8)
    asked = [prompt(AutomaticPrompt()), prompt(BoxPrompt(box_px=(20, 20, 90, 50)), "wide")]

    answers = ask_scene(proposer, ArrayPicture(rgb), asked, Tiling(64, 16))
    made = settle_answers("s", proposer.identity, asked, answers, (60, 100), Cleaning())

    assert len({answer.tile for answer in answers}) == 2
    assert made.proposals
    assert {p.identity.model for p in made.proposals} == {"sam2_micro"}
    assert {p.prompt.source_id for p in made.proposals} <= {"x", "wide"}


def test_another_checkpoint_and_a_broken_one_are_told_from_the_right_one(micro: Micro, tmp_path: Path) -> None:
    broken = tmp_path / "broken.pt"
    broken.write_bytes(micro.checkpoint.read_bytes()[:5000])
    with pytest.raises(ConfigError, match=r"model 'sam2_micro' cannot be built from .*broken.pt.*checkpoint of this configuration"):
        sam2.Sam2Proposer(settings(micro).model_copy(update={"checkpoint": broken}), "a" * 64)

    official = Sam2Settings(checkpoint=micro.checkpoint, config="sam2.1_hiera_t", device="cpu")
    with pytest.raises(ConfigError, match=r"model 'sam2.1_hiera_t' cannot be built"):
        sam2.Sam2Proposer(official, "a" * 64)


def test_the_configurations_of_the_package_are_all_there() -> None:
    package = pytest.importorskip("sam2")
    from trigpoint.proposals.settings import OFFICIAL_CONFIGS

    with sam2._hydra_at(None) as name_of:
        assert all((Path(package.__path__[0]) / name_of(name)).is_file() for name in OFFICIAL_CONFIGS)


def test_a_missing_checkpoint_says_where_the_official_ones_come_from(micro: Micro, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nope.pt does not exist; the official ones.*facebookresearch/sam2"):
        sam2.Sam2Proposer(settings(micro).model_copy(update={"checkpoint": tmp_path / "nope.pt"}), "a" * 64)


def test_a_failure_of_the_model_is_a_model_error(proposer: sam2.Sam2Proposer, image: NDArray[np.uint8], monkeypatch: Any) -> None:
    def fail(**_: Any) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(proposer._predictor, "predict", fail)
    with pytest.raises(ModelError, match=r"'sam2_micro' failed on a picture of 96 × 80 px.*out of memory; .*lower sam2.batch_size"):
        proposer.propose(image, boxes(1))


def test_a_gpu_that_is_not_there_is_said(micro: Micro, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="say auto or cpu"):
        sam2.Sam2Proposer(settings(micro, device="cuda"), "a" * 64)


def test_hydra_is_left_as_the_package_leaves_it(proposer: sam2.Sam2Proposer) -> None:
    from hydra.core.global_hydra import GlobalHydra

    assert GlobalHydra.instance().is_initialized()
    assert "torch" in sys.modules
