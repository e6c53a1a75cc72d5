"""Results as a page: one HTML file that needs nothing else, no network and no script."""
