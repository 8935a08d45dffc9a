#!/usr/bin/env bash
# install.sh PYTHON DIR: real engines from locked wheels, in environments of their own (about 30 s, 0.8 GB).
# Never fails: where they cannot be had, the reason is printed and kept in a file `unavailable`, and the tests
# that need them are skipped with it. A second call does nothing.
set -uo pipefail
python=$1
dir=$2
here=$(dirname "$0")

pip_install() { # VENV LOCK...
    local venv=$1 locks=()
    shift
    for lock in "$@"; do locks+=(-r "$lock"); done
    "$python" -m venv "$venv" &&
        "$venv/bin/python" -m pip install -qq --disable-pip-version-check --no-deps --only-binary :all: \
            --require-hashes "${locks[@]}"
}

llamacpp_and_dynamo() { # DIR
    pip_install "$1/venv" "$here/support.lock" "$here/engines.lock" &&
        "$1/venv/bin/python" -c 'import xllamacpp, dynamo.mocker.config' &&
        "$1/venv/bin/python" "$here/make_known_model.py" "$1/model"
}

triton() { # DIR; apart from the others, because its python backend needs numpy 1
    pip_install "$1/venv" "$here/triton/triton.lock" && "$1/venv/bin/python" "$here/triton/server.py" --check
}

install() { # NAME DIR FUNCTION INPUT...: the function's output goes to a log; its inputs' sum marks it as done
    local name=$1 to=$2 make=$3 wanted
    wanted=$(cat "${@:4}" | sha256sum)
    [ -f "$to/ready" ] && [ "$(cat "$to/ready")" = "$wanted" ] && return
    echo "--> installing $name into $to"
    rm -rf "$to"
    mkdir -p "$to"
    if "$make" "$to" >"$to/install.log" 2>&1; then
        echo "$wanted" >"$to/ready"
    else
        grep . "$to/install.log" | tail -n 1 >"$to/unavailable"
        echo "--> no $name here, its tests will be skipped: $(cat "$to/unavailable")"
    fi
}

install "llama.cpp's server and Dynamo's frontend with its mocker" "$dir/light" llamacpp_and_dynamo \
    "$here/support.lock" "$here/engines.lock" "$here/make_known_model.py"
install "Triton" "$dir/triton" triton "$here/triton/triton.lock"
