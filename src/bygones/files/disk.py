"""Read files of the working tree whose paths come from transcripts."""

from __future__ import annotations

import os
import stat
from pathlib import Path

MAX_FILE_BYTES = 64 * 1024 * 1024


def read_regular_file(path: Path, *, is_strict: bool = False) -> bytes | None:
    """Return the content of a regular file; none if there is none.

    A device or pipe is not opened for waiting. With `is_strict` neither a link nor a file
    with several names is accepted. Raises `OSError`.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if is_strict:
        flags |= getattr(os, "O_NOFOLLOW", 0)
    try:
        handle = os.open(path, flags)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise OSError(0, "its name is not valid") from error
    except OSError as error:
        if is_strict and path.is_symlink():
            raise OSError(0, "it is a link") from error
        raise
    with open(handle, "rb") as file:  # noqa: PTH123 (a descriptor)
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is not a regular file")
        if is_strict and status.st_nlink > 1:
            raise OSError(0, "it has several names (hard links)")
        if status.st_size > MAX_FILE_BYTES:
            raise OSError(0, "it is too large")
        return file.read()
