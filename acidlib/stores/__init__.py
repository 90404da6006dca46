"""A location's files: listing, claim, staging, publication, removal."""
