"""What each of the two stages asks of an answer beyond its form.

A fault makes an answer unusable (it is asked for once more, then `malformed`); a problem is mended by asking once more too, but the answer
is then taken as it is and says so. Not here: whether a sentence is true (the grounded check).
"""

from collections.abc import Callable, Sequence

from trigpoint.language.llm_reply import Judged
from trigpoint.records.language import Generated, Verified

MAX_PHRASE_CHARS = 300
"""Longest sentence taken from a model. The longest of OVEarth-Bench has far fewer; a longer one is a model that rambles."""


def judge_generated(category: str) -> Callable[[Generated], Judged]:
    """Return what stage 1 says of an answer about a target of a category.

    Source: OVEarth-Bench, Appendix A: a vocabulary phrase holds the category's name, and every referring expression does.
    """

    def judge(answer: Generated) -> Judged:
        lists = {
            "positive_ovs_phrases": answer.positive_ovs_phrases,
            "positive_res_phrases": answer.positive_res_phrases,
            "positive_reasoning_phrases": answer.positive_reasoning_phrases,
            "negative_candidates": answer.negative_candidates,
        }
        fault = next((text for name, phrases in lists.items() if (text := _fault_of(name, phrases))), "")
        problems: list[str] = []
        if not any(_holds(phrase, category) for phrase in answer.positive_ovs_phrases):
            problems.append(f"positive_ovs_phrases: none holds the name {category!r}")
        problems += [
            f"positive_res_phrases: {phrase!r} lacks the name {category!r}"
            for phrase in answer.positive_res_phrases
            if not _holds(phrase, category)
        ]
        problems += [
            f"positive_reasoning_phrases: {phrase!r} holds the name {category!r}"
            for phrase in answer.positive_reasoning_phrases
            if _holds(phrase, category)
        ]
        return Judged(tuple(text for phrases in lists.values() for text in phrases), fault, tuple(problems))

    return judge


def judge_verified(category: str, negatives: Sequence[str], referring: Sequence[str]) -> Callable[[Verified], Judged]:
    """Return what stage 2 says of an answer about these names and sentences: every one has a verdict, and nothing else has."""

    def judge(answer: Verified) -> Judged:
        named = [verdict.candidate for verdict in answer.verification_results]
        checked = [verdict.original_phrase for verdict in answer.positive_res_phrase_qc]
        corrected = [verdict.corrected_phrase for verdict in answer.positive_res_phrase_qc]
        final = answer.corrected_positive_res_phrases
        faults = [
            f"verification_results: has {named}, expected one entry for each of {list(negatives)}"
            if sorted(named) != sorted(negatives)
            else "",
            f"positive_res_phrase_qc: has {checked}, expected one entry for each of {list(referring)}"
            if sorted(checked) != sorted(referring)
            else "",
            _fault_of("positive_res_phrase_qc", corrected),
            _fault_of("corrected_positive_res_phrases", final),
        ]
        changed = [
            v.original_phrase for v in answer.positive_res_phrase_qc if v.status == "valid" and v.corrected_phrase != v.original_phrase
        ]
        problems = [f"positive_res_phrase_qc: {phrase!r} is called valid, yet changed" for phrase in changed]
        problems += [
            f"corrected_positive_res_phrases: {phrase!r} lacks the name {category!r}" for phrase in final if not _holds(phrase, category)
        ]
        return Judged((*corrected, *final), next((fault for fault in faults if fault), ""), tuple(problems))

    return judge


def _holds(phrase: str, category: str) -> bool:
    return " ".join(category.casefold().split()) in " ".join(phrase.casefold().split())


def _fault_of(name: str, phrases: Sequence[str]) -> str:
    if any(not phrase.strip() for phrase in phrases):
        return f"{name}: a phrase is empty"
    if any(len(phrase) > MAX_PHRASE_CHARS for phrase in phrases):
        return f"{name}: a phrase has more than {MAX_PHRASE_CHARS} characters"
    folded = [" ".join(phrase.casefold().split()) for phrase in phrases]
    if len(set(folded)) != len(folded):
        return f"{name}: has the same phrase twice"
    return ""
