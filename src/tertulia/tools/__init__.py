"""WHAT THE MODEL CAN DO: one interface (`tool`), one file for each family of tools, one dispatch for all."""
