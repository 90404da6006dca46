"""Pure decisions: each returns its reason as a value."""
