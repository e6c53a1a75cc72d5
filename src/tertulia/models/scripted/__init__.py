"""A model whose replies are written in advance."""
