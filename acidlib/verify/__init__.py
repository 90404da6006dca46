"""A second reader of tables, which shares no code with the compacting one. It compares rows before and after."""
