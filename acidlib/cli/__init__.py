"""The command line: how a run is started, its options, and what surrounds every job."""
