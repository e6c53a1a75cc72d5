"""`tertulia bench compare`: the same work done by Tertulia, by its peers and by the least that it can cost.

The referee (`referee`) runs each peer in an environment of its own (`environments`), in turns, against one mock
provider (`provider`), and sets every figure against that of the bare HTTP client in the same round.
"""
