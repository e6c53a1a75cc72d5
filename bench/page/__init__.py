"""The page of the dashboard in a real browser, measured."""
