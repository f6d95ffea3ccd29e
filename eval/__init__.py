"""The evaluation harness: the agents of training, run against any OpenAI-compatible endpoint."""
