"""The wires to models: one interface (`wire`), the catalogue, and the choice of a model."""
