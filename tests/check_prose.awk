# Finds comments, and paragraphs of guides, that open like a translation ("Of ...", "What ...", "Where ...", "That ...",
# "Those ...", "The same ..."). The subject comes first. Prints each place, and exits with 1 if there is one.
#
#   awk -f tests/check_prose.awk FILE...

function check(text) {
  if (tolower(text) !~ /^[^a-z]*(of|what|where|that|those|the same)([^a-z]|$)/) return
  print FILENAME ":" FNR ": opens with Of, What, Where, That, Those or The same; put the subject first: " text
  ++found
}

FNR == 1 {
  is_guide = FILENAME ~ /\.md$/
  mark = FILENAME ~ /\.(py|sh|bash|awk|sed|cmake|txt|ya?ml|sbatch)$|(^|\/)[^.\/]+$/ ? "#" : FILENAME ~ /\.css$/ ? "/\\*" : "//"
  whole_line = "^[ \t]*" mark " "
  in_block = fenced = 0
}
is_guide && /^```/ { fenced = !fenced; next }
is_guide && (fenced || /^[|#]/ || /^[ \t]*$/) { in_block = 0; next }
is_guide {
  if (!in_block || /^ *[-*0-9.]+ /) { sub(/^ *([-*]|[0-9]+\.) +/, ""); check($0) }
  in_block = 1
  next
}
$0 ~ whole_line {
  if (!in_block) { sub(whole_line, ""); check($0) }
  in_block = 1
  next
}
{ in_block = 0 }
/^[ \t]*(\/\*\*?|""") *[^ ]/ { sub(/^[ \t]*(\/\*\*?|""") */, ""); check($0); next }
mark != "/\\*" && $0 ~ "[^ ] +" mark " " { sub(".*[^ ] +" mark " ", ""); check($0) }
END { exit found > 0 }
