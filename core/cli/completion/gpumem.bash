# Completion of gpumem in bash. Commands and options are what --help prints, so a newer gpumem needs no newer file.

_gpumem_words() { # of `gpumem [COMMAND] --help`: the commands, or the options; those that take a value end with =
	local program=$1 what=$2
	shift 2
	case $what in
	commands) command "$program" --help 2>/dev/null | sed -n 's/^  \([a-z][a-z-]*\)  *.*/\1/p' ;;
	options) command "$program" "$@" --help 2>/dev/null | sed -n 's/^  \(--[a-z-]*=\{0,1\}\).*/\1/p' ;;
	values) # of option $2 of command $1: the alternatives that its line names
		if [[ $2 == --sim ]]; then
			command "$program" sim list 2>/dev/null | sed -n '2,/^$/s/^\([a-z][a-z0-9-]*\) .*/\1/p'
		else
			command "$program" "$1" --help 2>/dev/null | sed -n "s/^  $2=\([^ ]*|[^ ]*\) .*/\1/p" | tr '|' '\n'
		fi
		;;
	esac
}

_gpumem() {
	local program=${COMP_WORDS[0]} current=${COMP_WORDS[COMP_CWORD]} i
	COMPREPLY=()
	# Behind -- another program begins, with words of its own.
	for ((i = 2; i < COMP_CWORD; i++)); do
		if [[ ${COMP_WORDS[i]} == -- ]]; then
			declare -F _command_offset >/dev/null && _command_offset $((i + 1))
			return
		fi
	done
	if ((COMP_CWORD == 1)); then
		mapfile -t COMPREPLY < <(compgen -W "$(_gpumem_words "$program" commands)" -- "$current")
		return
	fi
	# = breaks words: `--by=li` is three of them
	local option=
	if [[ $current == = ]]; then
		option=${COMP_WORDS[COMP_CWORD - 1]} current=
	elif [[ ${COMP_WORDS[COMP_CWORD - 1]} == = ]]; then
		option=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	if [[ $option == --* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$(_gpumem_words "$program" values "${COMP_WORDS[1]}" "$option")" -- "$current")
	elif [[ $current == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$(_gpumem_words "$program" options "${COMP_WORDS[1]}")" -- "$current")
		[[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
	fi
}

complete -o bashdefault -o default -F _gpumem gpumem gpumem-ranks
