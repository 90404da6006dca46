#!/usr/bin/env bash
# Installs the module gssapi, which the tests of Kerberos need and skip without:
#   tests/servers/gssapi.sh PYTHON [--no-install]
# It is built once per checkout and version of Python, into .servers/gssapi; --no-install: another call installs it.
# Where the headers of Kerberos are not installed, they are taken out of Debian's packages, by anybody; the libraries
# themselves have to be there.
set -euo pipefail
python="$1"
if "$python" -c 'import gssapi' 2>/dev/null; then exit 0; fi
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
place="$root/.servers/gssapi"
mkdir -p "$place"
exec 9> "$place.lock"
flock 9

headers() {  # what fails in here has to say so itself: whoever asks "if ! wheel" turns set -e off
  mkdir -p "$place/debian"
  (cd "$place/debian" && apt-get -qq download libkrb5-dev krb5-multidev comerr-dev) || return 1
  for package in "$place"/debian/*.deb; do dpkg -x "$package" "$place/debian" || return 1; done
}

wheel() {
  if ! command -v krb5-config >/dev/null; then
    headers || return 1
    local usr="$place/debian/usr"
    sed -e "s#^prefix=.*#prefix=$usr#" "$usr/bin/krb5-config.mit" > "$place/krb5-config"
    chmod +x "$place/krb5-config"
    export GSSAPI_KRB5CONFIG="$place/krb5-config" GSSAPI_MAIN_LIB=libgssapi_krb5.so.2
    export GSSAPI_LINKER_ARGS="-l:libgssapi_krb5.so.2"
    export GSSAPI_COMPILER_ARGS="-I$usr/include/mit-krb5 -I$usr/include -DHAS_GSSAPI_EXT_H"
  fi
  # it is compiled faster so, and most of its time others work
  CFLAGS="-O0 -g0" "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$place" 'gssapi>=1.9'
}

version="$("$python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')"
built() { compgen -G "$place/gssapi-*-$version-*.whl"; }
if ! built >/dev/null && ! wheel > "$place/log" 2>&1; then
  echo "tests of Kerberos are skipped: the module gssapi cannot be built ($place/log says why)" >&2
  exit 0
fi
if [[ "${2:-}" == --no-install ]]; then exit 0; fi
"$python" -m pip install --quiet --disable-pip-version-check "$(built)" \
  || echo "tests of Kerberos are skipped: the module gssapi cannot be installed" >&2
