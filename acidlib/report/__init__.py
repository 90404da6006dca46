"""What is told: results as values, as text and as JSON, and progress. Decides nothing."""
