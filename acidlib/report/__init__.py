"""Results as values, as text and as JSON, and progress. Decides nothing."""
