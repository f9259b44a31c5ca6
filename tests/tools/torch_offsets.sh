#!/bin/sh
# Prints the offsets of PyTorch's published C++ classes: torch_offsets.sh [PYTHON], a Python that has torch.
# Needs g++ and Python's headers. One "class.field offset" a line.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
python=${1:-$here/../../.venv/bin/python}
torch=$("$python" -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])')
headers=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
# wheels up to 2.6 have libstdc++'s old std::string
abi=$("$python" -W ignore -c 'import torch; print(int(torch.compiled_with_cxx11_abi()))')
g++ -std=c++20 -D_GLIBCXX_USE_CXX11_ABI=$abi -fno-access-control -w -DC10_USE_MINIMAL_GLOG -DUSE_DISTRIBUTED -DUSE_C10D -I"$torch/include" \
	-I"$torch/include/torch/csrc/api/include" -I"$headers" -S -o - "$here/torch_offsets.cpp" | sed -n 's/^->//p'
