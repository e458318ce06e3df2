"""Embedding and generation, each with its providers.

A provider is a service or a library with models. Its modules, and Google's libraries, are imported
only when they are used, to keep cold starts short.
"""
