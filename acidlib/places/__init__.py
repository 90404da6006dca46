"""A place as a run sees it: which are chosen, their listings, earlier attempts, removals."""
