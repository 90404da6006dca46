"""A second reader of tables, which shares no code with the one that compacts: what was there, and what is there now."""
