"""The intervals after which a passage comes back."""

from datetime import date, timedelta

from shared.knowledge.reviews import Answer, Review, answer_review

TODAY = date(2024, 5, 31)
KEEP, NOT_SOON = Answer.KEEP, Answer.NOT_SOON


def list_intervals(*answers: Answer) -> list[int]:
    """Return the days after which a passage comes back, if each answer is given when it does."""
    review, today, intervals = None, TODAY, []
    for answer in answers:
        review = answer_review(review, answer, today)
        intervals.append((review.due - today).days)
        today = review.due
    return intervals


def test_intervals_double_up_to_448_days() -> None:
    assert list_intervals(*[KEEP] * 9) == [7, 14, 28, 56, 112, 224, 448, 448, 448]


def test_not_soon_skips_three_boxes() -> None:
    assert list_intervals(NOT_SOON, KEEP, NOT_SOON) == [56, 112, 448]


def test_an_answer_replaces_another_of_the_same_day() -> None:
    kept = answer_review(Review(box=2, day=TODAY - timedelta(days=14)), KEEP, TODAY)
    assert answer_review(answer_review(kept, NOT_SOON, TODAY), KEEP, TODAY) == kept
    new = answer_review(None, NOT_SOON, TODAY)
    assert answer_review(new, KEEP, TODAY) == answer_review(None, KEEP, TODAY)
    assert new.before(TODAY) is None
