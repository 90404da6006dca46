"""The ORC container: tail, stripes, streams, encodings, statistics. No value passes through a logical type here."""
