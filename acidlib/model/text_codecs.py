"""The codecs of text files, by the ends of their names, as Hadoop's readers choose them.

Source: Hadoop 3 `CompressionCodecFactory`: the longest default extension of a codec that a file's name ends with,
letter case included; a name that ends with none is of plain text. It knows the codecs that Hadoop brings along, and
those that `io.compression.codecs` adds.
"""

from __future__ import annotations

from acidlib.errors import RefusedError

CODECS = "io.compression.codecs"
"""Hadoop's property with the classes of more codecs, separated by commas."""

GZIP, BZIP2, DEFLATE = ".gz", ".bz2", ".deflate"

_OF_HADOOP = {
    "BZip2Codec": BZIP2,
    "DefaultCodec": DEFLATE,
    "DeflateCodec": DEFLATE,
    "GzipCodec": GZIP,
    "Lz4Codec": ".lz4",
    "SnappyCodec": ".snappy",
    "ZStandardCodec": ".zst",
}
_ADDED = {"LzoCodec": ".lzo_deflate", "LzopCodec": ".lzo", "BrotliCodec": ".br", "FourMcCodec": ".4mc"}
"""Classes that other projects add, whose files are no plain text to a Hadoop without them either."""
_ENDINGS = {**_OF_HADOOP, **_ADDED}


def codec_ending(path: str, configured: str) -> str:
    """Return the end of a file's name by which it has a codec, "" for plain text.

    configured  the value of `CODECS`

    Raises RefusedError, with the reason alone, where a codec is configured whose files are not known, and the file's
    name has an ending that may be of it.
    """
    name = path.rpartition("/")[2]
    ending = max((end for end in _ENDINGS.values() if name.endswith(end)), key=len, default="")
    classes = [text.strip() for text in configured.split(",") if text.strip()]
    unknown = [text for text in classes if text.rpartition(".")[2] not in _ENDINGS]
    if not ending and unknown and "." in name:
        raise RefusedError(f"its name may be of the codec {unknown[0]} in {CODECS}, whose files are not known")
    return ending
