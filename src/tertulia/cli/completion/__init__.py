"""`tertulia completion`: scripts that complete its command line in bash, zsh and fish, and the verb that they ask."""
