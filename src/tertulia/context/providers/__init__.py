"""The context providers that ship with Tertulia."""
