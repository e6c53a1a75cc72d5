"""The AG-UI surface of `tertulia serve`: runs of agents as streams of events for web front ends, at `/ag-ui`."""
