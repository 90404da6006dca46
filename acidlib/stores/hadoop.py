"""Questions to Hadoop: the targets of mount tables, passwords and certificates, and delegation tokens for tasks.

Hadoop and Java answer in the JVM of the driver, so every kind of credential store and truststore that they know works,
and their own rules hold for the password of a store (HADOOP_CREDSTORE_PASSWORD, a password file, or the usual one).
Secrets are never printed, or handed to another process by its command line.

A mount table, `viewfs://table/path`, is a part of Hadoop's configuration and nothing else, so no Java is needed: the
longest link above a path wins, then `linkFallback` (Hadoop's InodeTree). Hadoop itself follows links by regular
expressions, which are Java's. A table lies in one directory of one store, so that a rename there is one rename.

Tasks may have no ticket of Kerberos. hdfs-native reads tokens from the file that HADOOP_TOKEN_FILE_LOCATION names,
whenever it makes a connection. The file that YARN writes when it starts a container is never updated; tokens that Spark
obtains later go to the JVM of an executor alone. So each task brings the driver's tokens of the time it was sent, and
writes them to a file in memory, which ends with its process. A driver that YARN has started without a keytab has only
tokens, and gets no new ones by them.

Sources: Hadoop `Configuration.getPassword`, `S3AUtils.lookupPassword`, `patchSecurityCredentialProviders`,
`UserGroupInformation`, `FileSystem.addDelegationTokens`, `Credentials`.
"""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError

from acidlib.errors import AcidError, MissingError, RefusedError, RetryError
from acidlib.location import LOCAL, VIEWFS, Location, parse_location
from acidlib.stores.filesystem import UnreachableServers, permission_missing

Start = Callable[[], tuple[Any, Any]]
"""Returns py4j's view of a JVM and the configuration of Hadoop in it. It is called when they are first needed."""

_DEFAULT_FS = "fs.defaultFS"
_TABLES = "fs.viewfs.mounttable."
_SHOWN = 3
_LINK, _FALLBACK, _WHOLE, _COPIES, _REGEX = "link.", "linkFallback", "linkMergeSlash", "linkNfly.", "linkRegex."
_NO_LINKS = ("homedir", "name.key")
"""Entries of a mount table that are no links; the second is a setting that looks like one of the table `default`."""


_NO_LINK = "its mount table has no link for it"


def resolve_viewfs(
    location: Location, configuration: Mapping[str, str], resolve_in_hadoop: Callable[[str], str]
) -> Location:
    """Return the location behind a location in a mount table.

    resolve_in_hadoop  returns the URI behind a URI by Hadoop itself; called where the table has links by expressions

    Raises `RefusedError` where there is no link, and where there are links below: then it is not one directory.
    """
    if not location.authority:
        scheme, _, rest = configuration.get(_DEFAULT_FS, "").partition("://")
        table = rest.partition("/")[0] if scheme.lower() in VIEWFS.schemes else ""
        table = table or configuration.get(f"{_TABLES}default.name.key", "default")
        location = replace(location, authority=table)
    links, has_expressions = _links(location, configuration)
    below = sorted(path for path in links if path and f"{path}/".startswith(f"{location.path}/"))
    if below and below != [location.path]:
        shown = ", ".join(below[:_SHOWN]) + (", …" if len(below) > _SHOWN else "")
        raise RefusedError(
            f"Cannot open {location}: its mount table has links below it ({shown}): name a directory below one of them"
        )
    above = [path for path in links if f"{location.path}/".startswith(f"{path}/")]
    link = max(above, key=len) if above else None
    if link is not None and links[link] is None:
        raise RefusedError(f"Cannot open {location}: its mount table has it in several places at once ({_COPIES}…)")
    if has_expressions:
        return _target(location, resolve_in_hadoop(str(location)))
    if link is None:
        raise RefusedError(f"Cannot open {location}: {_NO_LINK}")
    target = _target(location, links[link] or "")
    path = target.path.rstrip("/") + location.path.removeprefix(link)
    return replace(target, path=path or ("/" if target.kind == LOCAL else ""))


def _links(location: Location, configuration: Mapping[str, str]) -> tuple[dict[str, str | None], bool]:
    """Return the links of a mount table, and whether there are some by regular expressions, which come first.

    Paths have no slash at their end, so the root is empty. The target is None where a path is linked to several places.
    """
    table = f"{_TABLES}{location.authority}."
    links: dict[str, str | None] = {}
    has_expressions = False
    for key, target in configuration.items():
        entry = key.removeprefix(table)
        if entry == key or entry in _NO_LINKS:
            continue
        if entry in (_FALLBACK, _WHOLE):
            links[""] = target
        elif entry.startswith(f"{_LINK}/"):
            links[entry.removeprefix(_LINK).rstrip("/")] = target
        elif entry.startswith(_COPIES) and "/" in entry:
            links[entry[entry.index("/") :].rstrip("/")] = None
        elif entry.startswith(_REGEX):
            has_expressions = True
        else:
            raise RefusedError(f"Cannot open {location}: {key} is not supported in its mount table")
    if not links and not has_expressions:
        raise RefusedError(f"Cannot open {location}: Hadoop's configuration has no mount table of that name")
    return links, has_expressions


def _target(location: Location, uri: str) -> Location:
    try:
        target = parse_location(uri)
    except RefusedError as error:
        raise RefusedError(f"Cannot open {location}: it is linked to {uri}: {error}") from error
    if target == location:  # Hadoop's answer for a directory that exists in the mount table alone
        raise RefusedError(f"Cannot open {location}: {_NO_LINK}")
    if target.kind == VIEWFS:
        raise RefusedError(f"Cannot open {location}: it is linked to {uri}, another mount table")
    return target


class Hadoop:
    """Hadoop's `FileSystem` for mount tables, by whole URIs; threads share it. Pickled it answers nothing any more."""

    def __init__(self, start: Start | None = None) -> None:
        self._start = start
        self._started: tuple[Any, Any] | None = None
        self._starting = threading.Lock()
        self._opened: dict[str, Any] = {}

    def __reduce__(self) -> tuple[type[Hadoop], tuple[()]]:
        return Hadoop, ()

    def resolve(self, uri: str, unreachable: UnreachableServers) -> str:
        """Return the URI behind a file or directory of a mount table.

        Where a server behind it is away, all of the table counts as away: which other paths lie there is not known.
        Raises `MissingError` for a missing path, `RetryError` while the server is away.
        """
        scheme, _, rest = uri.partition(":")
        server = f"{scheme}://{rest[2:].partition('/')[0] if rest.startswith('//') else ''}"
        why = unreachable.reason(server)
        if why is not None:
            raise RetryError(f"Cannot open {uri}: {why}")
        jvm, configuration = self._jvm(uri)
        try:
            path = jvm.org.apache.hadoop.fs.Path(uri)
            files = self._opened.get(server)
            if files is None:
                files = jvm.org.apache.hadoop.fs.FileSystem.get(path.toUri(), configuration)
                self._opened[server] = files
            return str(files.resolvePath(path).toString())
        except Py4JError as error:
            name, message = java_error(error)
            if name in _AWAY:
                unreachable.note(server, f"{server} does not answer ({name}: {message})")
            raise _as_acid_error(name, message, f"Cannot open {uri}") from error

    def _jvm(self, uri: str) -> tuple[Any, Any]:
        with self._starting:
            if self._started is None:
                self._started = _start_jvm(self._start, f"open {uri}")
            return self._started


def _start_jvm(start: Start | None, action: str) -> tuple[Any, Any]:
    if start is None:
        raise RefusedError(f"Cannot {action}: only the driver, with the JVM of its Spark, can do so")
    return start()


def java_error(error: Py4JError) -> tuple[str, str]:
    """Return the simple name of a Java exception and the first line of its message; py4j's own without a JVM."""
    try:
        if isinstance(error, Py4JJavaError):
            exception = error.java_exception
            name, message = exception.getClass().getSimpleName(), exception.getMessage()
            return str(name), _first_line(message or "")
    except Py4JError as another:
        error = another
    return "", _first_line(str(error)) or type(error).__name__


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0].strip()


_MISSING = ("FileNotFoundException", "NoSuchFileException")
_NOT_DIRECTORY = ("ParentNotDirectoryException", "PathIsNotDirectoryException", "NotDirectoryException")
_DENIED = ("AccessControlException", "AccessDeniedException", "AuthorizationException")
_NO_SUCH_NAME = ("IllegalArgumentException", "InvalidPathException", "URISyntaxException")
_AWAY = (
    *("ConnectException", "ConnectTimeoutException", "NoRouteToHostException", "SocketTimeoutException"),
    *("UnknownHostException", "RetriesFailedException"),
)


def _as_acid_error(name: str, message: str, cannot: str) -> AcidError:
    """Return the error for a Java exception, by its simple name."""
    if name in _MISSING:
        return MissingError(f"{cannot}: there is no such file or directory")
    if name in _NOT_DIRECTORY or "not a directory" in message.lower():
        return MissingError(f"{cannot}: it is not, or lies not in, a directory")
    if name in _DENIED:
        return permission_missing(cannot, message)
    if name in _NO_SUCH_NAME:
        return RefusedError(f"{cannot}: Hadoop does not take it ({message})")
    if not name:
        return RetryError(f"{cannot}: the JVM of Spark does not answer ({message})")
    return RetryError(f"{cannot}: Hadoop said {name}: {message}")


PROVIDERS = "hadoop.security.credential.provider.path"
_ABOUT_PROVIDERS = ("hadoop.security.credential.", "hadoop.security.credstore.")


class JavaSecrets:
    """Passwords by their names in Hadoop's credential providers, and certificates of truststores.

    Each password is looked up once. Pickled it keeps those, and can look up no others: only the driver can.
    """

    def __init__(
        self,
        start: Start | None = None,
        properties: Mapping[str, str] | None = None,
        passwords: Mapping[tuple[str, str], str | None] | None = None,
    ) -> None:
        """Keep those of Hadoop's `properties` that name providers; `passwords` are by path of providers and name."""
        self._start = start
        self._properties = {
            name: value for name, value in (properties or {}).items() if name.startswith(_ABOUT_PROVIDERS)
        }
        self._passwords = dict(passwords or {})
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[JavaSecrets], tuple[None, dict[str, str], dict[tuple[str, str], str | None]]]:
        return JavaSecrets, (None, self._properties, self._passwords)

    @property
    def providers(self) -> str:
        """The path of the providers in Hadoop's form; empty without any."""
        return self._properties.get(PROVIDERS, "").strip()

    def password(self, name: str) -> str | None:
        """Return the password of a name; None where there are no providers, or none of them has it.

        Raises `RefusedError` for a store that cannot be opened, `RetryError` where no JVM can be started.
        """
        return self.passwords([name], self.providers).get(name)

    def passwords(self, names: Sequence[str], providers: str) -> dict[str, str]:
        """Return those passwords of these names that are in the providers of a path; see `password`."""
        if not providers:
            return {}
        with self._lock:
            unknown = [name for name in names if (providers, name) not in self._passwords]
            if unknown:
                self._passwords |= {(providers, name): value for name, value in self._read(unknown, providers).items()}
            return {name: value for name in names if (value := self._passwords[providers, name]) is not None}

    def certificates(self, path: str, kind: str | None, password: str | None) -> str:
        """Return the trusted certificates of a truststore, as PEM.

        kind      Java's name of its kind (JKS, PKCS12, JCEKS); None for the first two
        password  without one the certificates of a JKS are read, and its integrity is not checked

        Raises `RefusedError` where it cannot be read or has none, `RetryError` where no JVM can be started.
        """
        cannot = f"Cannot use the truststore {path}:"
        jvm, _ = _start_jvm(self._start, f"read the truststore {path}")
        try:
            store = jvm.java.security.KeyStore
            opened = store.getInstance(kind or store.getDefaultType())
            stream = jvm.java.io.FileInputStream(path)
            try:
                characters = None
                if password is not None:  # a `char[]`, for py4j makes a text of every Java String
                    size = len(password.encode("utf-16-le")) // 2
                    characters = jvm.java.nio.CharBuffer.allocate(size).put(password).array()
                opened.load(stream, characters)
            finally:
                stream.close()
            # by the public class: the certificates' own class is internal to Java
            encoded = jvm.java.lang.Class.forName("java.security.cert.Certificate").getMethod("getEncoded", None)
            certificates = [
                bytes(encoded.invoke(certificate, None))
                for alias in jvm.java.util.Collections.list(opened.aliases())
                if (certificate := opened.getCertificate(alias)) is not None
            ]
        except Py4JError as error:
            name, message = java_error(error)
            raise RefusedError(f"{cannot} Java said {name}: {message}") from None
        if not certificates:
            raise RefusedError(f"{cannot} there is no certificate in it, or none that can be read without its password")
        return "".join(map(ssl.DER_cert_to_PEM_cert, certificates))

    def _read(self, names: list[str], providers: str) -> dict[str, str | None]:
        jvm, configuration = _start_jvm(self._start, f"read {providers}")
        try:
            own = jvm.org.apache.hadoop.conf.Configuration(configuration)
            for key, value in self._properties.items():
                own.set(key, value)
            own.set(PROVIDERS, providers)
            opened = jvm.org.apache.hadoop.security.alias.CredentialProviderFactory.getProviders(own)
            passwords: dict[str, str | None] = dict.fromkeys(names)
            for name in names:
                for provider in opened:
                    if (entry := provider.getCredentialEntry(name)) is not None:
                        passwords[name] = str(jvm.java.lang.String.valueOf(entry.getCredential()))
                        break
            return passwords
        except Py4JError as error:
            name, message = java_error(error)
            raise RefusedError(f"Cannot read passwords from {providers}: Hadoop said {name}: {message}") from None


FILE_VARIABLE = "HADOOP_TOKEN_FILE_LOCATION"
_AUTHENTICATION = "hadoop.security.authentication"
_taking = threading.Lock()
_taken: list[tuple[bytes, int]] = []
"""The tokens of this process and their file; before them, the earlier ones, which another thread may be reading."""


def _forked() -> None:
    """Renew the lock, which another thread of the parent may have held; the file stays."""
    global _taking
    _taking = threading.Lock()


os.register_at_fork(after_in_child=_forked)


def asks_for_kerberos(configuration: Mapping[str, str]) -> bool:
    """Tell whether the name nodes ask for Kerberos."""
    return configuration.get(_AUTHENTICATION, "").strip().lower() == "kerberos"


class HandedTokens:
    """In the driver the source of tokens, in a task the tokens themselves, as Hadoop stores them; never printed."""

    def __init__(self, obtain: Callable[[tuple[str, ...]], bytes] | None = None, data: bytes = b"") -> None:
        """`obtain` returns tokens for authorities, host and port or a name service; each pickling calls it."""
        self._obtain = obtain
        self._authorities: tuple[str, ...] = ()
        self._data = data

    def __reduce__(self) -> tuple[type[HandedTokens], tuple[None, bytes]]:
        data = self._data
        if self._obtain is not None and self._authorities:
            data = self._obtain(self._authorities)
        return HandedTokens, (None, data)

    def use(self, authority: str) -> None:
        """Prepare a connection: the driver notes the authority, to obtain tokens for it; a task writes its tokens."""
        if self._obtain is not None:
            if authority not in self._authorities:
                self._authorities = (*self._authorities, authority)
            return
        with _taking:
            if not self._data or (_taken and _taken[-1][0] == self._data):
                return
            file = os.memfd_create("acidlib-tokens")
            with os.fdopen(os.dup(file), "wb") as stream:
                stream.write(self._data)
            _taken.append((self._data, file))
            os.environ[FILE_VARIABLE] = f"/proc/self/fd/{file}"
            while len(_taken) > 2:
                os.close(_taken.pop(0)[1])


_KEPT_SECONDS = 30.0
_SHARE_OF_LIFE = 0.5
"""The share of a token's life after which a new one is obtained: a task that got the old one has the rest."""


class DelegationTokens:
    """Tokens for name nodes, as Hadoop stores them, kept for a moment: each task that is sent asks for them."""

    def __init__(
        self,
        start: Start,
        clock: Callable[[], float],
        *,
        kept_seconds: float = _KEPT_SECONDS,
    ) -> None:
        """`clock` returns epoch seconds."""
        self._start = start
        self._clock = clock
        self._kept_seconds = kept_seconds
        self._own: dict[str, tuple[Any, float, float]] = {}  # the times when a new one is due, and when it ends
        self._known: tuple[float, tuple[str, ...], bytes] = (float("-inf"), (), b"")
        self._lock = threading.Lock()

    def __call__(self, authorities: tuple[str, ...]) -> bytes:
        """Return the tokens for authorities, `host:port` or a name service. Raises `RetryError`."""
        with self._lock:
            since, known, data = self._known
            if known == authorities and self._clock() - since < self._kept_seconds:
                return data
            try:
                data = self._stored(authorities)
            except Py4JError as error:
                name, message = java_error(error)
                names = ", ".join(f"hdfs://{authority}" for authority in authorities)
                raise RetryError(f"Cannot get tokens for {names}: Hadoop said {name}: {message}") from error
            self._known = self._clock(), authorities, data
            return data

    def _stored(self, authorities: tuple[str, ...]) -> bytes:
        jvm, configuration = self._start()
        hadoop = jvm.org.apache.hadoop
        user = hadoop.security.UserGroupInformation.getCurrentUser()
        existing, handed = user.getCredentials(), hadoop.security.Credentials()
        for authority in authorities:
            root = hadoop.fs.Path(f"hdfs://{authority}/").toUri()
            service = hadoop.fs.FileSystem.get(root, configuration).getCanonicalServiceName()
            token, due, ends = self._own.get(service, (None, 0.0, 0.0))
            now = self._clock()
            if token is None or now >= due:
                try:
                    token, ends = _new_token(jvm, configuration, user, root, service)
                    self._own[service] = token, now + (ends - now) * _SHARE_OF_LIFE, ends
                except Py4JError:
                    if token is None or now >= ends:
                        # Spark or YARN may have renewed the token that the user had from the start
                        token = existing.getToken(hadoop.io.Text(service))
                        if token is None:
                            raise
            # hdfs-native looks for the name by which it connects, where Hadoop has an address
            wanted = hadoop.io.Text(service if service.startswith("ha-hdfs:") else authority)
            renamed = token.copyToken()
            renamed.setService(wanted)
            handed.addToken(wanted, renamed)
        data = jvm.java.io.ByteArrayOutputStream()
        stream = jvm.java.io.DataOutputStream(data)
        handed.writeTokenStorageToStream(stream)
        stream.flush()
        return bytes(data.toByteArray())


def _new_token(jvm: Any, configuration: Any, user: Any, root: Any, service: str) -> tuple[Any, float]:
    """Return a new token of a name node, and its end unless it is renewed, in epoch seconds; raise `Py4JError`.

    Name nodes give tokens to users with a ticket, not to users with a token. Spark gives tokens to the user of this
    process, who then connects with them. So where there is a ticket, the name node is opened as a user with nothing
    else; with a keytab Spark renews the existing tokens.
    """
    hadoop = jvm.org.apache.hadoop
    if user.getRealUser() is not None or not hadoop.security.UserGroupInformation.isLoginTicketBased():
        files = hadoop.fs.FileSystem.newInstance(root, configuration)
    else:
        alone = hadoop.conf.Configuration(configuration)
        cache = jvm.java.lang.System.getenv("KRB5CCNAME")
        cache = cache or f"/tmp/krb5cc_{os.getuid()}"  # noqa: S108 - the default of Kerberos
        alone.set("hadoop.security.kerberos.ticket.cache.path", cache)
        files = hadoop.fs.FileSystem.newInstance(root, alone, user.getUserName())
    fresh = hadoop.security.Credentials()
    try:
        files.addDelegationTokens(user.getShortUserName(), fresh)
        token = fresh.getToken(hadoop.io.Text(service))
        # only renewing it tells its end; the token itself would do so as the user of this process
        return token, files.getClient().getNamenode().renewDelegationToken(token) / 1000
    finally:
        files.close()
