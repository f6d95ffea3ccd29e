"""Programs around training: search server, data, small world, cold start, release, viewing."""
