"""The record format: events and records encoded to rows, and rows decoded again. Knows no database."""
