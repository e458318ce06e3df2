"""Embedding and generation, each with its providers. A provider is imported only when used."""
