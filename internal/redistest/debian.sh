#!/bin/sh
# debian.sh PROGRAM PACKAGE...: prints the path of a program for the tests: that of PATH, or else Debian's, which is
# unpacked with these packages into .cache of this checkout. Nothing of the system is changed, so it needs no root;
# libraries have to be there. BACKPORTS is the release of Debian that has it in its backports.
set -eu

program=$1
shift
if command -v "$program"; then exit 0; fi

cache=$(cd "$(dirname "$0")/../.." && pwd)/.cache/debian/$1
file=$cache/root/usr/bin/$program

ID=none VERSION_CODENAME=none
[ ! -r /etc/os-release ] || . /etc/os-release
if [ ! -x "$file" ]; then
  if [ "$ID" != debian ] || ! command -v apt-get >/dev/null; then
    echo "These tests need $program in PATH: install it with your system's packages. Its service need not run." >&2
    exit 1
  fi
  suite=$VERSION_CODENAME
  [ "$suite" != "${BACKPORTS:-}" ] || suite=$suite-backports

  # apt with lists and a cache of its own; that the packages are Debian's it checks as ever.
  rm -rf "$cache"
  mkdir -p "$cache/lists/partial" "$cache/archives/partial" "$cache/parts"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $suite main" >"$cache/sources.list"
  apt() {
    apt-get -qq -o "Dir::Etc::SourceList=$cache/sources.list" -o "Dir::Etc::SourceParts=$cache/parts" -o "Dir::State::Lists=$cache/lists" \
      -o "Dir::Cache=$cache" -o "APT::Sandbox::User=$(id -un)" -o Acquire::Retries=3 -o APT::Update::Error-Mode=any "$@" >&2
  }
  apt update
  (cd "$cache/archives" && apt download "$@")
  for package in "$cache"/archives/*.deb; do dpkg -x "$package" "$cache/new"; done
  mv "$cache/new" "$cache/root"
fi
"$file" --version >&2 # a library that is missing ends this here
echo "$file"
