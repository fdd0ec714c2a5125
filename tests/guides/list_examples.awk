# Lists the commands of guides: awk -v folder=DIR -f list_examples.awk GUIDE... writes every fenced block with commands to DIR/N
# and prints a line "N <tab> GUIDE:LINE <tab> COMMANDS <tab> HEADING <tab> PLACE <tab> NOTE" for it. NOTE is the comment before the block:
#   <!-- not run: REASON -->   no test runs it
#   <!-- run by: FILE -->      a test with code of its own runs it
# PLACE is the block's number under its heading. Blocks of `text`, and of output alone, have no commands; in a block without a language, commands follow "$ ".

function finish() {
  if (commands == 0) return
  file = folder "/" ++blocks
  printf "%s", text > file
  close(file)
  printf "%d\t%s:%d\t%d\t%s\t%d\t%s\n", blocks, FILENAME, start, commands, heading, place, note
}

FNR == 1 { fenced = 0; heading = note = "" }
/^```/ && fenced { finish(); fenced = 0; note = ""; next }
/^```/ {
  fenced = 1
  language = substr($0, 4)
  start = FNR
  ++place
  text = ""
  commands = continues = 0
  next
}
!fenced && /^#/ { heading = $0; place = 0 }
!fenced && /^<!-- (not run|run by): .* -->$/ { note = substr($0, 6, length($0) - 9); next }
!fenced && NF { note = "" }
!fenced || language == "text" { next }
language == "" && !/^\$ / { next }
{
  line = $0
  if (language == "") sub(/^\$ /, "", line)
  text = text line "\n"
  # A command begins in the first column, unless the line before goes on.
  if (line ~ /^[^ #]/ && !continues) ++commands
  continues = line ~ /\\$/
}
