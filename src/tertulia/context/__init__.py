"""WHAT AN AGENT IS TOLD BEFORE IT STARTS: servers, tools and texts, collected from those who know."""
