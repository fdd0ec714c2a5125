# Bash completion of tp-infer, also on lines that start it with mpirun.
#
# It asks the program at each Tab, in 20 ms, so it needs no list of options that could be out of date. --help-all prints the commands,
# the options, and the kinds of their values. The error about an empty value lists the words that an option accepts. Every question
# contains --help, so the program never starts to work.

# Prints what follows an option's name in a command's --help-all, such as FILE or N=512; nothing for a flag.
_tp_infer_value_of() {  # HELP OPTION
  awk -v option="$2" '/^  -[^ ]+ [^ ]/ {
    count = split($1, names, ",")
    for (i = 1; i <= count; ++i) if (names[i] == option) print $2
  }' <<<"$1"
}

# Prints the words that an option accepts.
_tp_infer_words_of() {  # PROGRAM COMMAND OPTION VALUE
  if [[ $4 == *'|'* ]]; then  # off|ngram|draft:DIR|auto[:DIR]=off
    tr '|' '\n' <<<"${4%=*}" | sed 's/\[.*\]//; s/[A-Z]*$//'
  else
    "$1" "$2" "$3" '' --help 2>&1 | sed -n 's/.*expected one of \(.*\), found.*/\1/p' | tr -d ,
  fi
}

# Succeeds if the next word is a folder without an option, like that of kv-store.
_tp_infer_wants_folder() {  # HELP WORD...: the words after the command
  local help=$1 word before=
  [[ $(sed -n '/^Positionals:/{n;p;q}' <<<"$help") == '  DIR '* ]] || return 1
  shift
  for word; do
    [[ $word == -* || ($before == -* && -n $(_tp_infer_value_of "$help" "$before")) ]] || return 1
    before=$word
  done
}

# Completes a word of a command that starts tp-infer. The values of the launcher's options are files, if anything.
_tp_infer_launcher() {  # WORD BEFORE
  if [[ -n $1 || ($2 == -* && $2 != --) ]]; then
    compopt -o default
    [[ -z $1 || $1 == -* ]] || mapfile -t COMPREPLY < <(compgen -c -- "$1")
  else
    COMPREPLY=(tp-infer)
    [[ $2 != -- ]] || COMPREPLY=(mpirun tp-infer)
  fi
}

_tp_infer() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command='' value='' help='' at=-1 i
  local IFS=$' \t\n'
  COMPREPLY=()
  for ((i = 0; i < COMP_CWORD; ++i)); do
    case ${COMP_WORDS[i]} in
      tp-infer | */tp-infer) at=$i ;;
      --) [[ $at -lt 0 || ${COMP_WORDS[at + 1]} != gateway ]] || at=-1 ;;  # the command of a server follows
    esac
  done
  if ((at < 0)); then
    _tp_infer_launcher "$word" "$before"
    return
  fi
  local program=${COMP_WORDS[at]/#\~\//$HOME/}
  # Bash splits --kv-type=bf16 and draft:DIR at = and :.
  if [[ $word == = ]]; then
    word=
  elif [[ $before == = ]]; then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  ((COMP_CWORD == at + 1)) || command=${COMP_WORDS[at + 1]}
  help=$("$program" ${command:+"$command"} --help-all 2>/dev/null)
  if [[ $before == -* && -n $command ]]; then
    value=$(_tp_infer_value_of "$help" "$before")
  elif [[ $before == : ]]; then
    value=FILE
  fi
  if [[ -z $value && -n $command && $word != -* ]] &&
    _tp_infer_wants_folder "$help" "${COMP_WORDS[@]:at + 2:COMP_CWORD - at - 2}"; then
    compopt -o filenames
    mapfile -t COMPREPLY < <(compgen -d -- "$word")
    return
  fi
  case $value in
    '') mapfile -t COMPREPLY < <(compgen -W "$(
      sed -n -e '/^  -/{s/^  \([^ ]*\).*/\1/;s/,/ /g;p}' -e '/^Subcommands:/,/^$/s/^  \([a-z-]*\) .*/\1/p' <<<"$help"
    )" -- "$word") ;;
    FILE* | DIR*)
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      ;;
    *)
      mapfile -t COMPREPLY < <(compgen -W "$(_tp_infer_words_of "$program" "$command" "$before" "$value")" -- "$word")
      [[ ${COMPREPLY[*]} != *: ]] || compopt -o nospace
      ;;
  esac
}
complete -F _tp_infer tp-infer
# A launcher may have a completion of its own, as Slurm's srun does.
for _tp_infer_launched_by in mpirun mpiexec srun; do
  complete -p "$_tp_infer_launched_by" &>/dev/null || complete -F _tp_infer "$_tp_infer_launched_by"
done
unset _tp_infer_launched_by
