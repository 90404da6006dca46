"""The settings: their definitions, their files and the values in force."""
