"""Requests, answers and grants of approvals."""
