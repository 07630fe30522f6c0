"""What a user would take instead: other tools on the same data, for as long, by the same judge."""
