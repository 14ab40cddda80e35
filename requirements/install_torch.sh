#!/bin/sh
# install_torch.sh PIP-INSTALL-COMMAND...: torch's CPU build if pip finds it, else PyPI's.
set -eu
here=$(dirname "$0")

# A dry run decides, so that a failure in the real one is shown and not taken for an absent wheel.
if "$@" --quiet --dry-run --no-deps -r "$here/torch.txt" > /dev/null 2>&1; then
    # Its dependencies are the models' own: models.txt has them.
    exec "$here/quietly.sh" "$@" --no-deps -r "$here/torch.txt"
fi
cat << 'NOTICE'
      pip finds no CPU build of torch, so PyPI's is installed: it brings CUDA packages of several
      GB that nothing here needs. To avoid it, stop now, point PIP_EXTRA_INDEX_URL (PyTorch's own
      index for cpu) or PIP_FIND_LINKS (a folder) at the wheel that requirements/torch.txt names,
      and run again.
NOTICE
exec "$here/quietly.sh" "$@" --no-deps -r "$here/torch-cuda.txt"
