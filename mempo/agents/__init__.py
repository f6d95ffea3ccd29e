"""Agents: what runs a task, turn by turn, the same code in training and in evaluation."""
