"""Search of the live web: a search API, pages, and a cache that lets evaluations replay."""
