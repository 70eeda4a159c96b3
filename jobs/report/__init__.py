"""HTML pages: the report of a time range, and the index of a warehouse's pages."""
