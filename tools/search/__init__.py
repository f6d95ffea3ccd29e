"""Search over a corpus of passages: index, server, client."""
