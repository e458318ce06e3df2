"""Topics: what passages are about, found in their vectors and named by their words."""
