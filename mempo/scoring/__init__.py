"""Log-probs of every probe under the current policy."""
