"""The scripted model."""
