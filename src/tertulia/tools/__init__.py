"""What a model can do: one interface (`tool`), one file a tool, one dispatch."""
