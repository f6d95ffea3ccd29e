"""One training run from set-up to report: plan, stages, progress, summary."""
