"""A run's JSON document as one page for a browser: what it shows is decided here, and how it looks in its template."""
