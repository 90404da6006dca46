"""Values without I/O: names, write-id lists, row ids, listings, requests, plans' parts."""
