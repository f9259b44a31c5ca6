# Completion of gpumem in fish. Commands and options are what --help prints, so a newer gpumem needs no newer file.

function __gpumem_commands
    set -l program (commandline -opc)[1]
    command $program --help 2>/dev/null | string replace -rf '^  ([a-z][a-z-]*) +(.*)$' '$1\t$2'
end

function __gpumem_options
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    if string match -q -- '--sim=*' $current
        command $words[1] sim list 2>/dev/null | string replace -rf '^([a-z][a-z0-9]*-[a-z0-9]+) .*' -- '--sim=$1'
        return
    end
    for line in (command $words[1] $words[2] --help 2>/dev/null)
        set -l option (string match -r -- '^  (--[a-z-]+)(=?)(\S*) +(.*)$' $line)
        or continue
        # --on-oom=stop|core|none: each of them
        if test -n "$option[3]"; and string match -q -- '*|*' $option[4]
            for value in (string split '|' $option[4])
                printf '%s=%s\t%s\n' $option[2] $value $option[5]
            end
        else
            printf '%s%s\t%s\n' $option[2] "$option[3]" $option[5]
        end
    end
end

function __gpumem_at
    set -l words (commandline -opc)
    not contains -- -- $words
    or return 1
    switch $argv[1]
        case command
            test (count $words) -eq 1
        case option
            test (count $words) -gt 1
            and string match -q -- '-*' (commandline -ct)
    end
end

for program in gpumem gpumem-ranks
    complete -c $program -n '__gpumem_at command' -f -a '(__gpumem_commands)'
    complete -c $program -n '__gpumem_at option' -f -a '(__gpumem_options)'
end
