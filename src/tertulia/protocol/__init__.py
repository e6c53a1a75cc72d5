"""THE WORDS: ids, items, inputs, events, tool specs, storage policies. Frozen data that imports nothing of ours but errors."""
