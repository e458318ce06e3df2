"""Formats counts for sentences."""

from __future__ import annotations


def format_count(number: int, noun: str) -> str:
    """Format a number with a noun in the singular or plural, such as `1 chunk` or `2 chunks`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def format_answer_count(answers: int, near: int, all_answers: int, *, matches: bool) -> str | None:
    """Say how many hits of a page answer, or None if the hits themselves show that.

    Args:
        near: The number of further hits on the page, which are only near.
        all_answers: The number of hits that answer, on all pages.
        matches: Whether any of them is likely to. If not, they only may answer.
    """
    verb = "Answers" if matches else "May answer"
    if answers and near:
        return f"{verb}: {answers}; near: {near}."
    return f"{verb}: {answers} of {all_answers}." if answers < all_answers else None
