"""Searching: from a question and its filters to a ranking of documents."""
