"""The surfaces: ways in for other programs, over JSON-RPC, HTTP, ACP, the protocol of Codex, and MCP.

Each parses a request once and hands it to the session; none decides what a request does.
"""
