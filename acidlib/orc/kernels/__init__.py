"""Compiled kernels over the encoded streams of ORC: run lengths, varints, and copying of kept values."""
