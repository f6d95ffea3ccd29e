"""Cold start without a teacher model: demonstrations written by rule from known supporting facts, and a short SFT loop."""
