"""Secrets in texts: passwords and keys in URIs, in their parameters and in settings.

Errors of this engine are masked when they are made, so that neither results nor the queue hold a secret. All other
texts are masked where they leave the process. Time is linear in the length of a text.
"""

from __future__ import annotations

import re

MASK = "***"
_WORD = re.compile(r"\S+")
_SCHEME = re.compile(r"(?<![\w+.-])([\w+.-]+)://([^/?#@:]*)(:?)")
_S3 = re.compile("s3[an]?", re.IGNORECASE)
# schemes of URIs in whose paths an @ is usual, as in the value of a partition
_OF_PATHS = re.compile("(?:web|s)?hdfs|viewfs|file|abfss?|wasbs?|gs|ofs|o3fs", re.IGNORECASE)
_PORT = re.compile(r"[0-9]{1,5}(?![^/?#,;:)'\"\s])")
_NAME = (
    r"(?:pass|passwd|password|passphrase|passcode|pwd|secret|token|signature|sig|credential"
    r"|(?:secret|access|account|api|encryption)(?:[._-]?access)?[._-]?key)"
)
_NAME_ENDS = tuple(
    f"{end}="
    for end in (
        "pass",
        "passwd",
        "word",
        "phrase",
        "passcode",
        "pwd",
        "secret",
        "token",
        "signature",
        "sig",
        "credential",
        "key",
    )
)
_SIGNS = r"[:,.;)'\]]{0,2}"
# a parameter of a URI, and a setting, whose name has a dot; a quote with a backslash is one inside a JSON text; the
# signs of a sentence behind a value stay
_PARAMETER = re.compile(
    rf"([?&;][\w.-]*{_NAME}=)(?:\\.|[^&;\s\"\\])+?(?={_SIGNS}(?:[&;\s\"]|$))",
    re.IGNORECASE,
)
_SETTING = re.compile(
    rf"((?<![\w.-])[\w-]*\.[\w.-]*{_NAME}\s?=\s?)(?:\\.|[^\s\"\\])+?(?={_SIGNS}(?:[\s\"]|$))",
    re.IGNORECASE,
)
# a setting of one account of Azure ends in the account's host; a token has the form of parameters
_OF_ACCOUNT = re.compile(
    r"((?<![\w.-])[\w.-]*fs\.azure\.[\w.-]*(?:account\.key|client\.secret|fixed\.token|-key)\.[\w.:-]+\s?=\s?)"
    rf"(?:\\.|[^\s\"\\])+?(?={_SIGNS}(?:[\s\"]|$))",
    re.IGNORECASE,
)


def masked(text: str) -> str:
    """Return a text with `***` in place of each secret that its surroundings show to be one."""
    if "://" in text and "@" in text:
        text = _WORD.sub(lambda word: masked_uri(word[0]), text)
    if "=" in text and _may_assign(text):
        text = _SETTING.sub(rf"\1{MASK}", _PARAMETER.sub(rf"\1{MASK}", text))
    if "fs.azure." in text:
        text = _OF_ACCOUNT.sub(rf"\1{MASK}", text)
    return text


def is_secret(name: str) -> bool:
    """Return whether the value of a parameter or setting with this name is a secret."""
    return masked(f"?{name}=x") != f"?{name}=x"


def _may_assign(text: str) -> bool:
    """Return whether a value may be given to a name of a secret: most texts with an equals sign name partitions."""
    small = text.lower().replace(" =", "=")
    return any(end in small for end in _NAME_ENDS)


def masked_uri(uri: str) -> str:
    """Return a URI, or several in one word, with `***` between user and host; in S3 also in place of the user, a key.

    A secret has any character, also `/` and `@`, and so ends at the last `@`. In URIs with paths what looks like a port
    is one.
    """
    end = uri.rfind("@")
    for match in _SCHEME.finditer(uri):
        scheme, colon = match[1], match[3]
        if match.end() > end:
            break
        if colon and not (_OF_PATHS.fullmatch(scheme) and _PORT.match(uri, match.end())):
            kept = uri[: match.start(2)] if _S3.fullmatch(scheme) else f"{uri[: match.end(2)]}:"
            return f"{kept}{MASK}{uri[end:]}"
    return uri
