"""What is asked of Hadoop: where mount tables lead, passwords and certificates, and delegation tokens for tasks.

Hadoop and Java answer in the JVM of the driver, so each kind that they know is read, and their own rules hold for the
password of a store (HADOOP_CREDSTORE_PASSWORD, a password file, or the usual one). Nothing secret is ever printed, or
handed to another process by its command line.

A mount table, `viewfs://table/path`, is a part of Hadoop's configuration and nothing else, so no Java is asked: the
longest link that a path lies below wins, then `linkFallback` (Hadoop's InodeTree). Only links by regular expressions,
which are Java's, are Hadoop's to follow. What tables lie below is one directory of one store, so that a rename there is
one rename.

Tasks may have no ticket of Kerberos. hdfs-native reads tokens from the file that HADOOP_TOKEN_FILE_LOCATION names,
whenever it makes a connection. What YARN puts there when it starts a container stays as it is; what Spark obtains later
goes to the JVM of an executor alone. So each task brings what the driver had when it was sent, and the file is one in
memory, which ends with its process. A driver that YARN has started without a keytab has only tokens, and gets no new
ones by them.

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
from acidlib.model.location import LOCAL, VIEWFS, Location, parse_location
from acidlib.stores.filesystem import UnreachableServers, permission_missing

Start = Callable[[], tuple[Any, Any]]
"""Gives py4j's view of a JVM and the configuration of Hadoop in it. It is called when one is needed."""

_DEFAULT_FS = "fs.defaultFS"
_TABLES = "fs.viewfs.mounttable."
_SHOWN = 3
_LINK, _FALLBACK, _WHOLE, _COPIES, _REGEX = "link.", "linkFallback", "linkMergeSlash", "linkNfly.", "linkRegex."
_NO_LINKS = ("homedir", "name.key")
"""What a mount table has besides links; the second is a setting whose name looks like one of the table `default`."""


def resolve_viewfs(
    location: Location, configuration: Mapping[str, str], resolve_in_hadoop: Callable[[str], str]
) -> Location:
    """Return where a location of a mount table lies.

    resolve_in_hadoop  gives the URI behind a URI, as Hadoop finds it; asked where the table has links by expressions

    Raises `RefusedError` where there is no link, and for what has links below it: it is not one directory.
    """
    if not location.authority:
        scheme, _, rest = configuration.get(_DEFAULT_FS, "").partition("://")
        table = rest.partition("/")[0] if scheme.lower() == VIEWFS else ""
        table = table or configuration.get(f"{_TABLES}default.name.key", "default")
        location = replace(location, authority=table)
    links, has_expressions = _links(location, configuration)
    below = sorted(path for path in links if path and f"{path}/".startswith(f"{location.path}/"))
    if below and below != [location.path]:
        shown = ", ".join(below[:_SHOWN]) + (", …" if len(below) > _SHOWN else "")
        raise RefusedError(
            f"Cannot open {location}: its mount table has links below it ({shown}): name what is below one"
        )
    found = [path for path in links if f"{location.path}/".startswith(f"{path}/")]
    link = max(found, key=len) if found else None
    if link is not None and links[link] is None:
        raise RefusedError(f"Cannot open {location}: its mount table has it in several places at once ({_COPIES}…)")
    if has_expressions:
        return _target(location, resolve_in_hadoop(str(location)))
    if link is None:
        raise _no_link(location)
    target = _target(location, links[link] or "")
    path = target.path.rstrip("/") + location.path.removeprefix(link)
    return replace(target, path=path or ("/" if target.kind == LOCAL else ""))


def _no_link(location: Location) -> RefusedError:
    return RefusedError(f"Cannot open {location}: its mount table has no link for it")


def _links(location: Location, configuration: Mapping[str, str]) -> tuple[dict[str, str | None], bool]:
    """Return the links of a mount table, and whether there are some by regular expressions, which come first.

    Paths have no slash at their end, so the root is empty; what is linked to several places has None.
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
    if target == location:  # as Hadoop has directories that are in a mount table alone
        raise _no_link(location)
    if target.kind == VIEWFS:
        raise RefusedError(f"Cannot open {location}: it is linked to {uri}, another mount table")
    return target


class Hadoop:
    """Hadoop's `FileSystem` for mount tables, asked by whole URIs; threads share it.

    Pickled it can ask nothing any more.
    """

    def __init__(self, start: Start | None = None) -> None:
        self._start = start
        self._started: tuple[Any, Any] | None = None
        self._starting = threading.Lock()
        self._opened: dict[str, Any] = {}

    def __reduce__(self) -> tuple[type[Hadoop], tuple[()]]:
        return Hadoop, ()

    def resolve(self, uri: str, unreachable: UnreachableServers) -> str:
        """Return the URI behind the name of something that exists in a mount table.

        Where a server behind it is away, all of the table counts as away: what else that server has is not known.
        Raises `MissingError` for what is not there, `RetryError` for what cannot be asked now.
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
            name, says = said(error)
            if name in _AWAY:
                unreachable.note(server, f"{server} does not answer ({name}: {says})")
            raise _as_acid_error(name, says, f"Cannot open {uri}") from error

    def _jvm(self, uri: str) -> tuple[Any, Any]:
        with self._starting:
            if self._started is None:
                self._started = _started(self._start, f"open {uri}")
            return self._started


def _started(start: Start | None, what: str) -> tuple[Any, Any]:
    if start is None:
        raise RefusedError(f"Cannot {what}: only the driver, with the JVM of its Spark, can do so")
    return start()


def said(error: Py4JError) -> tuple[str, str]:
    """Return the simple name of a Java exception and the first line of its message; py4j's own without a JVM."""
    try:
        if isinstance(error, Py4JJavaError):
            thrown = error.java_exception
            name, says = thrown.getClass().getSimpleName(), thrown.getMessage()
            return str(name), _first_line(says or "")
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


def _as_acid_error(name: str, says: str, what: str) -> AcidError:
    """Return the error for a Java exception, by its simple name."""
    if name in _MISSING:
        return MissingError(f"{what}: there is no such file or directory")
    if name in _NOT_DIRECTORY or "not a directory" in says.lower():
        return MissingError(f"{what}: it is not, or lies not in, a directory")
    if name in _DENIED:
        return permission_missing(what, says)
    if name in _NO_SUCH_NAME:
        return RefusedError(f"{what}: Hadoop does not take it ({says})")
    if not name:
        return RetryError(f"{what}: the JVM of Spark does not answer ({says})")
    return RetryError(f"{what}: Hadoop said {name}: {says}")


PROVIDERS = "hadoop.security.credential.provider.path"
_ABOUT_PROVIDERS = ("hadoop.security.credential.", "hadoop.security.credstore.")


def about_providers(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that say where credential providers are, and how they are opened."""
    return {name: value for name, value in properties.items() if name.startswith(_ABOUT_PROVIDERS)}


class JavaSecrets:
    """Passwords by their names in Hadoop's credential providers, and certificates of truststores.

    What was asked for is asked once. Pickled it knows what was asked for, and can ask nothing any more: that is the
    driver's.
    """

    def __init__(
        self,
        start: Start | None = None,
        properties: Mapping[str, str] | None = None,
        found: Mapping[tuple[str, str], str | None] | None = None,
    ) -> None:
        """Of `properties` as `about_providers` has them; `found` has passwords by path of providers and name."""
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
        """Return the password of a name; None where there are no providers, or none of them has it.

        Raises `RefusedError` for a store that cannot be opened, `RetryError` where no JVM can be started.
        """
        return self.passwords([name], self.providers).get(name)

    def passwords(self, names: Sequence[str], providers: str) -> dict[str, str]:
        """Return the passwords of those names that are there, in providers whose path is given; see `password`."""
        if not providers:
            return {}
        with self._asking:
            unknown = [name for name in names if (providers, name) not in self._found]
            if unknown:
                self._found |= {(providers, name): value for name, value in self._asked(unknown, providers).items()}
            return {name: value for name in names if (value := self._found[providers, name]) is not None}

    def certificates(self, path: str, kind: str | None, password: str | None) -> str:
        """Return the certificates that a truststore has Java trust, as PEM.

        kind      as Java names it (JKS, PKCS12, JCEKS); None for the first two
        password  without one those of a JKS are read, and it is not checked that it is whole

        Raises `RefusedError` where it cannot be read or has none, `RetryError` where no JVM can be started.
        """
        failed = f"Cannot use the truststore {path}:"
        jvm, _ = _started(self._start, f"read the truststore {path}")
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
            # by the public class: that of the certificates is Java's own
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
        failed = f"Cannot read passwords from {providers}:"
        jvm, configuration = _started(self._start, f"read {providers}")
        try:
            own = jvm.org.apache.hadoop.conf.Configuration(configuration)
            for key, value in self._properties.items():
                own.set(key, value)
            own.set(PROVIDERS, providers)
            found = jvm.org.apache.hadoop.security.alias.CredentialProviderFactory.getProviders(own)
            passwords: dict[str, str | None] = dict.fromkeys(names)
            for name in names:
                for provider in found:
                    if (entry := provider.getCredentialEntry(name)) is not None:
                        passwords[name] = str(jvm.java.lang.String.valueOf(entry.getCredential()))
                        break
            return passwords
        except Py4JError as error:
            name, says = said(error)
            raise RefusedError(f"{failed} Hadoop said {name}: {says}") from None


FILE_VARIABLE = "HADOOP_TOKEN_FILE_LOCATION"
_AUTHENTICATION = "hadoop.security.authentication"
_taking = threading.Lock()
_taken: list[tuple[bytes, int]] = []
"""What this process goes by, and what before that, which another thread may be about to read."""


def _forked() -> None:
    """Another thread of the parent may have held it; the file stays."""
    global _taking
    _taking = threading.Lock()


os.register_at_fork(after_in_child=_forked)


def asks_for_kerberos(configuration: Mapping[str, str]) -> bool:
    """Tell whether the name nodes do."""
    return configuration.get(_AUTHENTICATION, "").strip().lower() == "kerberos"


class HandedTokens:
    """In the driver: where tokens come from. In a task: the tokens, as Hadoop stores them; never printed."""

    def __init__(self, obtain: Callable[[tuple[str, ...]], bytes] | None = None, data: bytes = b"") -> None:
        """`obtain` gives those for some authorities, host and port or a name service; it is asked by each pickling."""
        self._obtain = obtain
        self._authorities: tuple[str, ...] = ()
        self._data = data

    def __reduce__(self) -> tuple[type[HandedTokens], tuple[None, bytes]]:
        data = self._data
        if self._obtain is not None and self._authorities:
            data = self._obtain(self._authorities)
        return HandedTokens, (None, data)

    def use(self, authority: str) -> None:
        """Prepare a connection: the driver notes for what tokens are needed, a task takes up its own."""
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
"""After so much of the life of a token of ours a new one is obtained: a task that gets the old one has the rest."""


class DelegationTokens:
    """Tokens for name nodes, as Hadoop stores them; asked by each task that is sent, so they are kept for a moment."""

    def __init__(
        self,
        start: Start,
        clock: Callable[[], float],
        *,
        kept_seconds: float = _KEPT_SECONDS,
    ) -> None:
        """`clock` gives epoch seconds."""
        self._start = start
        self._clock = clock
        self._kept_seconds = kept_seconds
        self._own: dict[str, tuple[Any, float, float]] = {}  # when a new one is due, and when it ends
        self._known: tuple[float, tuple[str, ...], bytes] = (float("-inf"), (), b"")
        self._asking = threading.Lock()

    def __call__(self, authorities: tuple[str, ...]) -> bytes:
        """Return those for these authorities: `host:port`, or a name service. Raises `RetryError`."""
        with self._asking:
            since, whose, data = self._known
            if whose == authorities and self._clock() - since < self._kept_seconds:
                return data
            try:
                data = self._stored(authorities)
            except Py4JError as error:
                name, says = said(error)
                names = ", ".join(f"hdfs://{one}" for one in authorities)
                raise RetryError(f"Cannot get tokens for {names}: Hadoop said {name}: {says}") from error
            self._known = self._clock(), authorities, data
            return data

    def _stored(self, authorities: tuple[str, ...]) -> bytes:
        jvm, configuration = self._start()
        hadoop = jvm.org.apache.hadoop
        user = hadoop.security.UserGroupInformation.getCurrentUser()
        given, handed = user.getCredentials(), hadoop.security.Credentials()
        for authority in authorities:
            root = hadoop.fs.Path(f"hdfs://{authority}/").toUri()
            service = hadoop.fs.FileSystem.get(root, configuration).getCanonicalServiceName()
            token, due, ends = self._own.get(service, (None, 0.0, 0.0))
            now = self._clock()
            if token is None or now >= due:
                try:
                    token, ends = _obtained(jvm, configuration, user, root, service)
                    self._own[service] = token, now + (ends - now) * _SHARE_OF_LIFE, ends
                except Py4JError:
                    if token is None or now >= ends:
                        # what has given it may have given another one by now
                        token = given.getToken(hadoop.io.Text(service))
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


def _obtained(jvm: Any, configuration: Any, user: Any, root: Any, service: str) -> tuple[Any, float]:
    """Return a new token of a name node, and when it ends unless it is renewed, in epoch seconds; raise `Py4JError`.

    Name nodes give tokens to users who show a ticket, not a token. Spark gives the user of this process tokens,
    and a user who has one connects with it. So with a ticket it is opened as a user who has nothing else; with a keytab
    Spark sees to it that the tokens given are new ones.
    """
    hadoop = jvm.org.apache.hadoop
    if user.getRealUser() is not None or not hadoop.security.UserGroupInformation.isLoginTicketBased():
        files = hadoop.fs.FileSystem.newInstance(root, configuration)
    else:
        alone = hadoop.conf.Configuration(configuration)
        cache = jvm.java.lang.System.getenv("KRB5CCNAME")
        cache = cache or f"/tmp/krb5cc_{os.getuid()}"  # noqa: S108 - Kerberos has it there where nothing is said
        alone.set("hadoop.security.kerberos.ticket.cache.path", cache)
        files = hadoop.fs.FileSystem.newInstance(root, alone, user.getUserName())
    fresh = hadoop.security.Credentials()
    try:
        files.addDelegationTokens(user.getShortUserName(), fresh)
        token = fresh.getToken(hadoop.io.Text(service))
        # when it ends is told only to whom renews it; the token itself would do so as the user of this process
        return token, files.getClient().getNamenode().renewDelegationToken(token) / 1000
    finally:
        files.close()
