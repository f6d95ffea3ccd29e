"""Controlled experiments: arms of a frozen protocol over paired seeds, and what comes of them."""
