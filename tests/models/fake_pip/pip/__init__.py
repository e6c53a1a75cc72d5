"""Stands where pip would stand."""
