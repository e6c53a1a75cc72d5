"""How many instructions of Python the hot paths execute, held against figures that are checked in.

A count is not a time: a busy machine does not change it. It sees every step that Python takes, in all threads and all
packages; it does not see what C does within one call (a longer text to encode, a longer pattern to search).
"""
