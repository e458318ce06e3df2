"""Formats counts for sentences."""

from __future__ import annotations


def format_count(number: int, noun: str) -> str:
    """Format a number with a noun in the singular or plural, such as `1 chunk` or `2 chunks`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
