"""`tertulia models`: which models there are and which would answer, the embedded one, one tried out."""
