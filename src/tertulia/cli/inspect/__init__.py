"""Verbs that show or try out the runtime itself: settings, prompt, sandbox, wire schema, benchmarks."""
