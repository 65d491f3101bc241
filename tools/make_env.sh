#!/usr/bin/env bash
# Makes the environment that the tests run in: tools/make_env.sh FOLDER (normally called by `make env`).
# PYTHON, TORCH and TRITON are as the Makefile says.
set -euo pipefail
folder=$1
python=${PYTHON:-python3}
torch=${TORCH:-auto}
triton=${TRITON:-triton==3.6.0}

# What `auto` installs: the version that the tests are run with. On Linux x86-64 PyPI's plain wheel of it is a
# CUDA build of several gigabytes, so the index of CPU builds is asked first.
cpu_torch='torch==2.13.0'
cpu_index='https://download.pytorch.org/whl/cpu'

site=()
if [ "$torch" = auto ] && "$python" -c 'import torch' 2>/dev/null; then
    echo "using the torch that $python has"
    site=(--system-site-packages)
    torch=none
fi
"$python" -m venv "${site[@]}" "$folder"
pip=("$folder/bin/python" -m pip install --quiet --disable-pip-version-check)
# `packaging` is torch's and the tests' smallest common need; asking for Triton here keeps torch from another.
case $torch in
    none) ;;
    auto)
        # A machine that has a CPU build at hand (a wheel folder in pip's configuration) needs no download.
        "${pip[@]}" "$cpu_torch" --index-url "$cpu_index" --retries 0 --timeout 10 2>/dev/null ||
            "${pip[@]}" "$cpu_torch"
        ;;
    *) "${pip[@]}" "$torch" ;;
esac
"${pip[@]}" "$triton" -r requirements-dev.txt -e .
"$folder/bin/python" - <<'EOF'
import importlib.util
print("torch is", "there" if importlib.util.find_spec("torch") else "absent: the tests of the kernels' values are skipped")
EOF
