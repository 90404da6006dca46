"""Forks of a process of tests."""

from __future__ import annotations

import gc
import os
import warnings


def fork() -> int:
    """As os.fork. The child collects nothing that was made before it.

    Its parent alone has the threads that a client of HDFS waits for when it is collected: in a child that had begun to
    start threads of its own it waited for ever.
    """
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the threads of this process hold nothing it needs
            child = os.fork()
        if child == 0:
            gc.freeze()
    finally:
        gc.enable()
    return child
