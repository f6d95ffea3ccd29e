"""A seeded fictional encyclopedia: pages, multi-hop questions, a tokenizer and an untrained model for it."""
