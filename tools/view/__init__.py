"""The trajectory viewer: one HTML file in which the trajectories of a run can be read, turn by turn."""
