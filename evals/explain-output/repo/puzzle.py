"""A puzzle."""

functions = [lambda: number for number in range(3)]
values = [function() for function in functions]
words = "".join(chr(ord("a") + value) for value in values)
print(words)
