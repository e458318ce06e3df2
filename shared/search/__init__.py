"""Search: turns a query and its filters into a ranking of documents."""
