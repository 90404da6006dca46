"""What the program does, one story a file: initiate, compact, clean, undo, read."""
