"""Releases: a checkpoint or a data folder as a Hugging Face repository that has been loaded, served and compared."""
