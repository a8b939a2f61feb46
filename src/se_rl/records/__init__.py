"""What is stored, and how: whole or not at all."""
