"""WHAT IS ALLOWED: rights as data, and their meet. Rights only narrow."""
