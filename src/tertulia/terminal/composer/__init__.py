"""Where a person writes: the editor with its history, completions, pictures and long pastes, and the mode."""
