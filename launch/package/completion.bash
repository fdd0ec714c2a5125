# Bash completion of tp-infer.
#
# It asks the program at each Tab, in 20 ms, so it needs no list of options that could be out of date. --help prints the commands, the
# options, and the kinds of their values. The error about an empty value lists the words that an option accepts. Every question
# contains --help, so the program never starts to work.

# Prints what follows an option's name in --help, such as FILE or N=512; nothing for a flag.
_tp_infer_value_of() {  # PROGRAM COMMAND OPTION
  "$1" "$2" --help 2>/dev/null | awk -v option="$3" '/^  -[^ ]+ [^ ]/ {
    count = split($1, names, ",")
    for (i = 1; i <= count; ++i) if (names[i] == option) print $2
  }'
}

# Prints the words that an option accepts.
_tp_infer_words_of() {  # PROGRAM COMMAND OPTION VALUE
  if [[ $4 == *'|'* ]]; then  # off|ngram|draft:DIR|auto[:DIR]=off
    tr '|' '\n' <<<"${4%=*}" | sed 's/\[.*\]//; s/[A-Z]*$//'
  else
    "$1" "$2" "$3" '' --help 2>&1 | sed -n 's/.*expected one of \(.*\), found.*/\1/p' | tr -d ,
  fi
}

_tp_infer() {
  local program=$1 word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command='' value=''
  local IFS=$' \t\n'
  COMPREPLY=()
  # Bash splits --kv-type=bf16 and draft:DIR at = and :.
  if [[ $word == = ]]; then
    word=
  elif [[ $before == = ]]; then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  ((COMP_CWORD == 1)) || command=${COMP_WORDS[1]}
  if [[ $before == -* && -n $command ]]; then
    value=$(_tp_infer_value_of "$program" "$command" "$before")
  elif [[ $before == : ]]; then
    value=FILE
  fi
  case $value in
    '') mapfile -t COMPREPLY < <(compgen -W "$("$program" ${command:+"$command"} --help 2>/dev/null |
          sed -n -e '/^  -/{s/^  \([^ ]*\).*/\1/;s/,/ /g;p}' -e '/^Subcommands:/,/^$/s/^  \([a-z-]*\) .*/\1/p')" -- "$word") ;;
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
