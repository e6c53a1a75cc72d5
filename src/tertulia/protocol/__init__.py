"""THE WORDS: ids, items, inputs, events, tool specs, storage. Frozen data; imports nothing of ours but errors."""
