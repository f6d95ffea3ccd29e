"""Self-contained pages: one HTML file that opens from disk, needs no network and treats outside text as data."""
