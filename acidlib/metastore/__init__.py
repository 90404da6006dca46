"""Catalogs and transactions. Built so far: standalone, where the caller says what is committed."""
