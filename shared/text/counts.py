"""Counts in sentences."""

from __future__ import annotations


def format_count(number: int, noun: str) -> str:
    """Format a number with its noun, which is plural unless the number is one."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
