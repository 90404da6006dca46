"""Settings: which there are, where they are stated, and what they say."""
