#!/usr/bin/env bash
# install.sh PYTHON DIR: real engines from locked wheels, in an environment of their own (about 20 s, 0.5 GB).
# Never fails: where they cannot be had, the reason is printed and kept in DIR/unavailable, and the tests
# that need them are skipped with it. A second call does nothing.
set -uo pipefail
python=$1
dir=$2
here=$(dirname "$0")
inputs=("$here/support.lock" "$here/engines.lock" "$here/make_known_model.py")

wanted=$(cat "${inputs[@]}" | sha256sum)
[ -f "$dir/ready" ] && [ "$(cat "$dir/ready")" = "$wanted" ] && exit 0

echo "--> installing llama.cpp's server and Dynamo's frontend with its mocker into $dir"
rm -rf "$dir"
mkdir -p "$dir"
log="$dir/install.log"
if { "$python" -m venv "$dir/venv" &&
    "$dir/venv/bin/python" -m pip install -qq --disable-pip-version-check --no-deps --only-binary :all: \
        --require-hashes -r "$here/support.lock" -r "$here/engines.lock" &&
    "$dir/venv/bin/python" -c 'import xllamacpp, dynamo.mocker.config' &&
    "$dir/venv/bin/python" "$here/make_known_model.py" "$dir/model"; } >"$log" 2>&1; then
    echo "$wanted" >"$dir/ready"
else
    tail -n 1 "$log" >"$dir/unavailable"
    echo "--> no real engines here, their tests will be skipped: $(cat "$dir/unavailable")"
fi
