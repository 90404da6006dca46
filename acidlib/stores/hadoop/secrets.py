"""What Java keeps secret or in files of its own: passwords in Hadoop's credential providers, truststores.

Hadoop and Java open them, in the JVM of the driver, so each kind that they know is read, and their own rules hold for
the password of a store (HADOOP_CREDSTORE_PASSWORD, a password file, or the usual one). Nothing of it is ever printed,
or handed to another process by its command line.

Source: Hadoop `Configuration.getPassword`, `S3AUtils.lookupPassword` and `patchSecurityCredentialProviders`.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JError

from acidlib.errors import RefusedError
from acidlib.stores.hadoop.jvm import said

PROVIDERS = "hadoop.security.credential.provider.path"
_ABOUT_PROVIDERS = ("hadoop.security.credential.", "hadoop.security.credstore.")


def about_providers(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that say where credential providers are, and how they are opened."""
    return {name: value for name, value in properties.items() if name.startswith(_ABOUT_PROVIDERS)}


class JavaSecrets:
    """Passwords by their names in Hadoop's credential providers, and certificates of truststores.

    What was asked for is asked once. Pickled it knows what was asked for, and can ask nothing any more: that is the
    driver's.
    """

    def __init__(
        self,
        start: Callable[[], tuple[Any, Any]] | None = None,
        properties: Mapping[str, str] | None = None,
        found: Mapping[tuple[str, str], str | None] | None = None,
    ) -> None:
        """`start` gives py4j's view of a JVM and the configuration of Hadoop in it. It is called when one is needed.

        properties  as `about_providers` has them
        found       what is known already: passwords by the providers' path and their names
        """
        self._start = start
        self._properties = dict(properties or {})
        self._found = dict(found or {})
        self._asking = threading.Lock()

    def __reduce__(self) -> tuple[type[JavaSecrets], tuple[None, dict[str, str], dict[tuple[str, str], str | None]]]:
        return JavaSecrets, (None, self._properties, self._found)

    @property
    def providers(self) -> str:
        """Where the providers are, as Hadoop is told; empty where there are none."""
        return self._properties.get(PROVIDERS, "").strip()

    def password(self, name: str) -> str | None:
        """The password of a name; None where there are no providers, or none of them has it.

        Raises `RefusedError` for a store that cannot be opened, `RetryError` where no JVM can be started.
        """
        return self.passwords([name], self.providers).get(name)

    def passwords(self, names: Sequence[str], providers: str) -> dict[str, str]:
        """Those of the names that are there, in providers whose path is given; see `password`."""
        if not providers:
            return {}
        with self._asking:
            unknown = [name for name in names if (providers, name) not in self._found]
            if unknown:
                self._found |= {(providers, name): value for name, value in self._asked(unknown, providers).items()}
            return {name: value for name in names if (value := self._found[providers, name]) is not None}

    def certificates(self, path: str, kind: str | None, password: str | None) -> str:
        """The certificates that a truststore has Java trust, as PEM.

        kind      as Java names it (JKS, PKCS12, JCEKS); None for the first two
        password  without one those of a JKS are read, and nobody checks that it is whole

        Raises `RefusedError` where it cannot be read or has none, `RetryError` where no JVM can be started.
        """
        failed = f"Cannot use the truststore {path}: because"
        jvm, _ = self._jvm(f"the truststore {path}")
        try:
            store = jvm.java.security.KeyStore
            opened = store.getInstance(kind or store.getDefaultType())
            stream = jvm.java.io.FileInputStream(path)
            try:
                opened.load(stream, None if password is None else _characters(jvm, password))
            finally:
                stream.close()
            # by the class that everybody may use: that of the certificates is Java's own
            encoded = jvm.java.lang.Class.forName("java.security.cert.Certificate").getMethod("getEncoded", None)
            found = [
                bytes(encoded.invoke(certificate, None))
                for alias in jvm.java.util.Collections.list(opened.aliases())
                if (certificate := opened.getCertificate(alias)) is not None
            ]
        except Py4JError as error:
            name, says = said(error)
            raise RefusedError(f"{failed} Java said {name}: {says}") from None
        if not found:
            raise RefusedError(f"{failed} there is no certificate in it, or none that can be read without its password")
        return "".join(map(ssl.DER_cert_to_PEM_cert, found))

    def _asked(self, names: list[str], providers: str) -> dict[str, str | None]:
        failed = f"Cannot read passwords from {providers}: because"
        jvm, configuration = self._jvm(providers)
        try:
            own = jvm.org.apache.hadoop.conf.Configuration(configuration)
            for key, value in self._properties.items():
                own.set(key, value)
            own.set(PROVIDERS, providers)
            found = jvm.org.apache.hadoop.security.alias.CredentialProviderFactory.getProviders(own)
            return {name: _first(jvm, found, name) for name in names}
        except Py4JError as error:
            name, says = said(error)
            raise RefusedError(f"{failed} Hadoop said {name}: {says}") from None

    def _jvm(self, what: str) -> tuple[Any, Any]:
        if self._start is None:
            raise RefusedError(f"Cannot read {what}: because only the driver, with the JVM of its Spark, can do so")
        return self._start()


def _first(jvm: Any, providers: Iterable[Any], name: str) -> str | None:
    for provider in providers:
        entry = provider.getCredentialEntry(name)
        if entry is not None:
            return str(jvm.java.lang.String.valueOf(entry.getCredential()))
    return None


def _characters(jvm: Any, text: str) -> Any:
    """A `char[]`: py4j makes a text of every Java String."""
    return jvm.java.nio.CharBuffer.allocate(len(text.encode("utf-16-le")) // 2).put(text).array()
