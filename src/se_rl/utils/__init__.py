"""What users of the package need beside it."""
