"""The embedded model: weights, the program that runs them, its wire."""
