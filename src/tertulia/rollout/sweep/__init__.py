"""What may not be stored any longer is erased."""
