"""Clustering: groups of passages, found in their vectors and named by their words."""
