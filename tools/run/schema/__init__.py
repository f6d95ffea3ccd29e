"""What every key of a run's config takes: types, ranges and choices, looked at before anything computes with a value."""
