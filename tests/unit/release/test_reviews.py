"""What a release tells of its review."""

from tests.unit.release.conftest import Reviewed
from tests.unit.review._decisions import SCENE, accept_of, decide, mask_item, square
from trigpoint.config import ReviewConfig
from trigpoint.release.reviews import review_document
from trigpoint.review.ledger import Ledger, instance_id_of, new_part


def test_people_are_numbered_and_their_reasons_kept_unless_names_are_published() -> None:
    ledger, item = Ledger(), mask_item()
    said = [decide(ledger, item, "return", who="Ada"), decide(ledger, item, "accept", who="Bo", role="manager")]
    hidden = review_document([item], said, ReviewConfig(policy="unanimous", groups=(("Bo", "Cy"),)), 0)
    assert [(line["who"], line["reason"]) for line in hidden.lines] == [("person-1", None), ("person-2", None)]
    assert hidden.block["groups"] == [["person-2", "person-3"]]
    assert [line["decision_id"] for line in hidden.lines] == ["d-1", "d-2"]  # no digest of a name to be guessed
    assert "Ada" not in str(hidden)
    shown = review_document([item], said, ReviewConfig(publish_names=True), 0)
    assert [(line["who"], line["reason"]) for line in shown.lines] == [("Ada", "because"), ("Bo", "")]


def test_a_vote_on_what_is_no_longer_there_names_no_version() -> None:
    ledger, item = Ledger(), mask_item()
    vote = decide(ledger, item, "accept")
    changed = item._replace(value=square(5, 5))
    edit = decide(ledger, changed, "edit", after=square(7, 7))
    (old, new) = review_document([changed], [vote, edit], ReviewConfig(), 0).lines
    assert old["version"] is None
    assert new["version"] is not None
    assert list(new["made"]) == [item.item_id]


def test_what_people_add_where_nothing_is_proposed_counts() -> None:
    part = new_part(SCENE, square(3, 3).mask, ["hut"])
    added = accept_of(mask_item(instance_id_of(SCENE, part)), action="add", parts=(part,))
    changed = review_document([], [added], ReviewConfig(), 0).block["changed"]
    rate = {"seen": 1, "changed": 1, "rejected": 0, "removed": 0, "changed_or_removed": 1, "share": 1.0, "changed_or_removed_share": 1.0}
    assert changed == {"mask": {"kind": "mask", **rate, "by_role": {"annotator": rate}}}


def test_a_spot_check_says_what_it_found() -> None:
    config = ReviewConfig(policy="single", sample_share=0.999)
    items = [mask_item(f"i-{k}") for k in range(3)]
    ledger = Ledger()
    said = [decide(ledger, items[0], "accept"), decide(ledger, items[1], "reject")]
    found = review_document(items, said, config, 0).block["spot_check"]
    assert found == {"mask": {"drawn": 3, "decided": 2, "wrong": 1, "share": 0.5, "interval": [0.0945, 0.9055]}}


def test_the_card_tells_rates_and_agreement(reviewed: Reviewed) -> None:
    card = (reviewed.release.folder / "README.md").read_text(encoding="utf-8").splitlines()
    assert "| mask | 2 | 1 (50.0 %) | 1 | 2 (100.0 %) |" in card
    assert "| mask, annotators | 2 | 1 (50.0 %) | 1 | 2 (100.0 %) |" in card
    assert "| mask, managers | 1 | 0 (0.0 %) | 0 | 0 (0.0 %) |" in card
    assert "| referring | 1 | 1 (100.0 %) | 0 | 1 (100.0 %) |" in card
    row = card.index("| judged by | items | Cohen's κ (–: chance alone would agree always) |")
    assert card[row + 2].startswith("| Maya Rai and ada | 1 | ")
    assert "spot check" not in "\n".join(card)
