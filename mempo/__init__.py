"""The method and nothing else: agents, trajectories, probes, likelihoods, credit."""
