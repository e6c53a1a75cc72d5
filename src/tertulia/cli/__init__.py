"""The program `tertulia`: one module a verb, and what verbs share."""
