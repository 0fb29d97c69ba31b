"""What a release tells of its review."""

from tests.unit.review._decisions import SCENE, accept_of, decide, mask_item, square
from trigpoint.config import ReviewConfig
from trigpoint.release.reviews import review_document
from trigpoint.review.ledger import Ledger, instance_id_of, new_part


def test_people_are_numbered_and_their_reasons_kept_unless_names_are_published() -> None:
    ledger, item = Ledger(), mask_item()
    said = [decide(ledger, item, "return", who="Ada"), decide(ledger, item, "accept", who="Bo", role="manager")]
    hidden = review_document([item], said, ReviewConfig(policy="unanimous", groups=(("Bo", "Cy"),)))
    assert [(line["who"], line["reason"]) for line in hidden.lines] == [("person-1", None), ("person-2", None)]
    assert hidden.block["groups"] == [["person-2", "person-3"]]
    assert "Ada" not in str(hidden)
    shown = review_document([item], said, ReviewConfig(publish_names=True))
    assert [(line["who"], line["reason"]) for line in shown.lines] == [("Ada", "because"), ("Bo", "")]


def test_a_vote_on_what_is_no_longer_there_names_no_version() -> None:
    ledger, item = Ledger(), mask_item()
    vote = decide(ledger, item, "accept")
    changed = item._replace(value=square(5, 5))
    edit = decide(ledger, changed, "edit", after=square(7, 7))
    (old, new) = review_document([changed], [vote, edit], ReviewConfig()).lines
    assert old["version"] is None
    assert new["version"] is not None
    assert list(new["made"]) == [item.item_id]


def test_what_people_add_where_nothing_is_proposed_counts() -> None:
    part = new_part(SCENE, square(3, 3).mask, ["hut"])
    added = accept_of(mask_item(instance_id_of(SCENE, part)), action="add", parts=(part,))
    changed = review_document([], [added], ReviewConfig()).block["changed"]
    assert changed == {"mask": {"kind": "mask", "seen": 1, "changed": 1, "rejected": 0, "share": 1.0}}
