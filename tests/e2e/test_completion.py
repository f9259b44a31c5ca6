"""Completion in the shells themselves: commands and options as --help prints them, values, the words of another program."""

import os
import re
import shutil
import time

import pytest
from conftest import BUILD, ROOT, run_process

FILES = ROOT / "core" / "cli" / "completion"
PATH = f"{BUILD / 'bin'}:{os.environ['PATH']}"

BASH = """
source {files}/gpumem.bash
COMP_LINE={line}
IFS=$'\\n' read -rd '' -a COMP_WORDS < <(printf '%s' "$COMP_LINE" | sed -e 's/ /\\n/g' -e 's/=/\\n=\\n/g') || true
[[ $COMP_LINE == *[\\ =] ]] && COMP_WORDS+=('')
[[ $COMP_LINE == *= ]] && unset 'COMP_WORDS[-1]'
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)) COMP_POINT=${{#COMP_LINE}}
_gpumem gpumem
printf '%s\\n' "${{COMPREPLY[@]}}"
"""

# zsh completes on a terminal alone: one of its own. Each pause is as long as needed: its editor writes when it is ready for keys, and
# what it had found when it came to the key behind the tab.
ZSH = r"""
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PS1=; fpath=({files} \$fpath); autoload -Uz compinit; compinit -u -d {scratch}; setopt nolistbeep; LISTMAX=1000"
zpty -w shell "compadd () {{ builtin compadd -O found \"\$@\"; print -rl -- \$found >>{out}; builtin compadd \"\$@\" }}"
zpty -w shell "over () {{ print over >{out}.over }}; zle -N over; bindkey '^T' over; bindkey '^I' complete-word"
zpty -w shell "zle-line-init () {{ print ready >{out}.ready }}; zle -N zle-line-init"
while [[ ! -e {out}.ready ]]; do zpty -r -t shell ignored; sleep 0.05; done
zpty -w -n shell {line}$'\t\x14'
while [[ ! -e {out}.over ]]; do zpty -r -t shell ignored; sleep 0.05; done
zpty -d shell
"""


def in_bash(line, folder):
    return run_process(["bash", "--norc", "-c", BASH.format(files=FILES, line=f"'{line}'")], env={**os.environ, "PATH": PATH}, cwd=folder).check().out


def in_fish(line, folder):
    text = f"source {FILES}/gpumem.fish; complete -C '{line}'"
    environment = {**os.environ, "PATH": PATH, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    return run_process(["fish", "--no-config", "-c", text], env=environment, cwd=folder).check().out


def in_zsh(line, folder):
    out = folder / f"found{time.monotonic_ns()}"
    text = ZSH.format(files=FILES, scratch=folder / "dump", out=out, line=f"'{line}'")
    run_process(["zsh", "-f", "-c", text], env={**os.environ, "PATH": PATH, "TERM": "dumb", "ZDOTDIR": str(folder)}, cwd=folder, timeout=600).check()
    return out.read_text() if out.exists() else ""


SHELLS = {"bash": in_bash, "fish": in_fish, "zsh": in_zsh}


@pytest.fixture(params=SHELLS)
def complete(request, tmp_path):
    """complete(line) -> the words that the shell proposes for the last one."""
    if not shutil.which(request.param):
        pytest.skip(f"no {request.param} on this machine")

    def call(line):
        return {word.split("\t")[0] for word in SHELLS[request.param](line, tmp_path).splitlines() if word}

    call.folder = tmp_path
    return call


def test_commands_are_those_of_help(complete, run_gpumem):
    names = set(re.findall(r"^  ([a-z][a-z-]+) ", run_gpumem("--help").check().out, re.M))
    assert complete("gpumem ") == names
    assert complete("gpumem pe") == {"peak"}
    assert complete("gpumem wh") == {"why", "who-holds"}


def test_gpumem_ranks_is_completed_as_gpumem_is(complete):
    assert complete("gpumem-ranks pe") == {"peak"}
    assert complete("gpumem-ranks peak --lo") == {"--local"}


def test_options_are_those_of_the_commands_help(complete, run_gpumem):
    for command in ("peak", "attach", "view"):
        options = {"".join(found) for found in re.findall(r"^  (--[a-z-]+)(=?)", run_gpumem(command, "--help").check().out, re.M)}
        proposed = {re.sub(r"=.*", "=", word) for word in complete(f"gpumem {command} --")}
        assert proposed == options
    assert {re.sub(r"=.*", "=", word) for word in complete("gpumem peak --dev")} == {"--device="}


def test_values_that_are_known_are_proposed(complete):
    values = {word.rpartition("=")[2] for word in complete("gpumem run --sim=h")}
    assert values == {"h100-80gb", "h200-141gb"}
    values = {word.rpartition("=")[2] for word in complete("gpumem attach --way=")}
    assert values == {"auto", "python", "thread"}


def test_after_two_hyphens_no_option_of_gpumem_is_proposed(complete):
    assert not {word for word in complete("gpumem run -- true --") if word.startswith("--sim")}
