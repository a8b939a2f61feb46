"""Market data: read, check, clean, split; features; a seeded synthetic market history."""
