# Sourced by the scripts of this folder. Sets `root` and goes there.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

cache=${XDG_CACHE_HOME:-$HOME/.cache}/rlreplay
# A virtual environment per list of packages: a new list never breaks an older checkout.
venv=$cache/venv-$(sha256sum scripts/requirements.txt | cut -c1-12)

# Files of one checkout compiled in another folder are the same files.
export CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=$root

say() { printf '%s\n' "$*" >&2; }
