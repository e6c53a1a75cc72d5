"""The program `tertulia`: one module a verb, families for verbs with several parts, and what verbs share.

It parses the command line and prints; what is done is done by `session` and `server`.
"""
