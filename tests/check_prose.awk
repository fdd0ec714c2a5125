# Counts comments and paragraphs that open like a translation ("Of ...", "What ...", "Where ...", "That ...", "Those ...",
# "The same ...") in each room, and compares the counts with the ceilings in tests/prose_ceilings.txt. The subject comes first.
#
#   awk -f tests/check_prose.awk tests/prose_ceilings.txt FILE...
#
# Ceilings only fall: after a room was rewritten, enter its new count, which the script prints.

function opens_badly(text) {
  return tolower(text) ~ /^[^a-z]*(of|what|where|that|those|the same)([^a-z]|$)/
}

function count(text) {
  ++all[room]
  if (opens_badly(text)) ++bad[room]
}

FNR == NR {
  if ($0 !~ /^#/ && NF == 2) ceiling[$1] = $2
  next
}
FNR == 1 {
  room = FILENAME
  if (!sub(/\/[^\/]*$/, "", room)) room = "."
  is_guide = FILENAME ~ /\.md$/
  if (is_guide) room = "guides"
  in_block = fenced = 0
}
is_guide && /^```/ { fenced = !fenced; next }
is_guide {
  if (fenced || /^\|/ || /^#/) { in_block = 0; next }
  if (/^[ \t]*$/) { in_block = 0; next }
  if (!in_block || /^ *[-*0-9.]+ /) { text = $0; sub(/^ *([-*]|[0-9]+\.) +/, "", text); count(text) }
  in_block = 1
  next
}
/^[ \t]*\/\/ / {
  if (!in_block) { text = $0; sub(/^[ \t]*\/\/ /, "", text); count(text) }
  in_block = 1
  next
}
{ in_block = 0 }
/[;{},)] +\/\/ / { text = $0; sub(/.*[;{},)] +\/\/ /, "", text); count(text) }
END {
  for (room in all) {
    found = bad[room] + 0
    if (!(room in ceiling)) { print room ": no ceiling in tests/prose_ceilings.txt: expected " room " " found; ++wrong }
    else if (found > ceiling[room]) {
      print room ": " found " of " all[room] " comments open with Of, What, Where, That, Those or The same; expected at most " ceiling[room] ". Put the subject first."
      ++wrong
    } else if (found < ceiling[room]) print room ": lower its ceiling to " found
  }
  for (room in ceiling) if (!(room in all)) { print room " has no file: remove its ceiling"; ++wrong }
  exit wrong > 0
}
