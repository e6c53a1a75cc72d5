"""Traces for OpenTelemetry: spans made from the events of a session, and where they are sent."""
