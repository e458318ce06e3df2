"""Retrieval: how texts become chunks and how chunks are found."""
