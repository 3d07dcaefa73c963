#!/bin/sh
# Finds a Python that can set the repository up, and starts the set-up with it.
# PYTHON names one; else the one of an earlier set-up stays, else the newest found is taken.
# A version manager's shim can exist and still fail, so each candidate is really run.
set -u
case ${PYTHON:-} in
    /*) ;;
    */*) PYTHON=$PWD/$PYTHON ;;
esac
cd "$(dirname "$0")/.." || exit 1

# Ends with 0 when the set-up can use this Python; says why not otherwise.
probe='
import sys
if not (3, 11) <= sys.version_info[:2] <= (3, 13):
    sys.exit("is Python %d.%d.%d" % tuple(sys.version_info[:3]))
try:
    import ssl, venv
    if sys.argv[1] == "pip":
        import ensurepip
except ImportError:
    sys.exit("lacks a module to make virtual environments with: %s" % sys.exc_info()[1])
'
installer=${INSTALLER:-}
if [ -z "$installer" ]; then
    if command -v uv >/dev/null 2>&1; then installer=uv; else installer=pip; fi
fi

if [ -n "${PYTHON:-}" ]; then
    candidates=$PYTHON
else
    candidates="../.venv/bin/python python3.13 python3.12 python3.11 python3 python"
fi

refused=""
for candidate in $candidates; do
    command -v "$candidate" >/dev/null 2>&1 || continue
    if reason=$("$candidate" -E -s -c "$probe" "$installer" 2>&1); then
        exec "$candidate" -E -s -m setup "$installer"
    fi
    refused="$refused  $candidate ($(command -v "$candidate")) $(printf '%s' "$reason" | head -n 1)
"
done

cat >&2 <<END
set-up stopped: no Python found that can be used. Tidemark needs 3.11, 3.12 or 3.13.
${refused:-  none of these is there: $candidates
}  What to do: install one, with its venv module (Debian, Ubuntu: apt-get install python3 python3-venv;
  Fedora: dnf install python3.13; anywhere: uv python install 3.13 or pyenv install 3.13).
  What to do: or name one that is elsewhere: make setup PYTHON=/path/to/python3.12
END
exit 1
