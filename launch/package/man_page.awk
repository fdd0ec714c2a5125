# Writes the man page of a command from its --help:
#   tp-infer generate --help | awk -v name=tp-infer-generate -v version=0.1.0 -v date=2026-01-31 -f man_page.awk
#
# CLI11 prints options in two columns, the second one from column 31. Everything after the options is the command's own footer.

function escaped(text) {
  gsub(/\\/, "\\e", text)
  gsub(/-/, "\\-", text)
  if (text ~ /^[.']/) text = "\\&" text
  return text
}

# Words in backquotes become bold. `bold` remembers a quotation that the next line continues.
function prose(text) {
  text = escaped(text)
  while (sub(/`/, bold ? "\\fR" : "\\fB", text)) bold = !bold
  return text "\n"
}

function verbatim(text) {
  text = escaped(text)
  gsub(/'/, "\\(aq", text)
  gsub(/`/, "\\(ga", text)
  gsub(/\^/, "\\(ha", text)
  gsub(/~/, "\\(ti", text)
  return text "\n"
}

# "-m,--model DIR" with its flags in bold and its value in italics.
function entry(names,    value, end) {
  sub(/ +$/, "", names)
  if (in_commands) return ".TP\n.BR " escaped("tp-infer-" names) " (1)\n"
  end = index(names " ", " ")
  value = substr(names, end + 1)
  names = escaped(substr(names, 1, end - 1))
  gsub(/,/, "\\fR, \\fB", names)
  return ".TP\n\\fB" names "\\fR" (value == "" ? "" : " \\fI" escaped(value) "\\fR") "\n"
}

# Appends to one of the page's sections.
function add(text) { page[section] = page[section] text }
function begin_paragraph() { if (page[section] != "") add(".PP\n") }
function end_block() {
  if (in_block) add(".EE\n.RE\n.PP\n")
  in_block = 0
}

NR == 1 { summary = $0; next }
/^Usage: / && NR <= 3 {
  end = index($0, " [OPTIONS]")
  synopsis = ".B " escaped(substr($0, 8, end - 8)) "\n" escaped(substr($0, end + 1)) "\n"
  next
}
/^[A-Z].*:$/ && !/^Examples?:$/ && !in_footer {  # a group of options
  in_commands = /^Subcommands:/
  section = in_commands ? "COMMANDS" : "OPTIONS"
  if (!in_commands && (!/^Options:/ || page[section] != "")) { sub(/:$/, ""); add(".SS " escaped($0) "\n") }
  next
}
/^  [^ ]/ && !in_footer {
  bold = 0
  has_text = substr($0, 30, 1) == " " && substr($0, 31, 1) ~ /[^ ]/
  add(entry(has_text ? substr($0, 3, 27) : substr($0, 3)))
  if (has_text) add(prose(substr($0, 31)))
  next
}
/^ / && !in_footer { sub(/^ +/, ""); add(prose($0)); next }
/^$/ {
  if (in_footer) { end_block(); begin_paragraph() }
  next
}
{ if (!in_footer) section = "DESCRIPTION"; in_footer = 1 }
/^Examples?:$/ { section = "EXAMPLES"; next }
/^ / {
  if (!in_block) { begin_paragraph(); add(".RS 4\n.EX\n") }
  in_block = 1
  sub(/^  /, "")
  add(verbatim($0))
  next
}
{ end_block() }
match($0, /^(Exit status|Environment): /) {
  section = toupper(substr($0, 1, RLENGTH - 2))
  $0 = toupper(substr($0, RLENGTH + 1, 1)) substr($0, RLENGTH + 2)
}
{ add(prose($0)) }

END {
  end_block()
  print ".TH " escaped(toupper(name)) " 1 " date " \"tp-infer " version "\" \"User Commands\""
  print ".SH NAME\n" escaped(name) " \\- " escaped(tolower(substr(summary, 1, 1)) substr(summary, 2))
  printf "%s", ".SH SYNOPSIS\n" synopsis
  count = split("DESCRIPTION COMMANDS OPTIONS EXAMPLES ENVIRONMENT EXIT_STATUS", order, " ")
  for (i = 1; i <= count; ++i) {
    gsub("_", " ", order[i])
    sub(/(\.PP\n)+$/, "", page[order[i]])
    if (page[order[i]] != "") printf ".SH %s\n%s", order[i], page[order[i]]
  }
  if (address != "") print ".SH BUGS\nReport errors at " escaped(address) "."
  if (name != "tp-infer") print ".SH SEE ALSO\n.BR tp\\-infer (1),\n.BR mpirun (1)"
}
