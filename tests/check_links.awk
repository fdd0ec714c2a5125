# Checks the relative links of Markdown files: awk -f check_links.awk FILE..., from the top of the tree. Prints each link whose
# file or heading is missing, and exits with 1 if there is one.

function exists(path) { return system("test -e '" path "'") == 0 }

# "a/b/../c" -> "a/c"
function resolved(path) {
  while (match(path, /[^\/]+\/\.\.\//)) path = substr(path, 1, RSTART - 1) substr(path, RSTART + RLENGTH)
  return path
}

# The anchor that GitHub gives a heading.
function anchor(heading) {
  gsub(/`/, "", heading)
  heading = tolower(heading)
  gsub(/[^a-z0-9 _-]/, "", heading)
  gsub(/ /, "-", heading)
  return heading
}

FNR == 1 { fenced = 0; folder = FILENAME; if (!sub(/[^\/]*$/, "", folder)) folder = "" }
/^```/ { fenced = !fenced; next }
fenced { next }
/^#+ / { heading = $0; sub(/^#+ /, "", heading); anchors[FILENAME "#" anchor(heading)] = 1 }
{
  line = $0
  while (match(line, /\]\([^)]*\)/)) {
    link = substr(line, RSTART + 2, RLENGTH - 3)
    line = substr(line, RSTART + RLENGTH)
    if (link ~ /^https?:/) continue
    ++count
    links[count] = link
    places[count] = FILENAME ":" FNR
    folders[count] = folder
    files[count] = FILENAME
  }
}
END {
  for (i = 1; i <= count; ++i) {
    path = links[i]
    fragment = ""
    if (match(path, /#/)) { fragment = substr(path, RSTART); path = substr(path, 1, RSTART - 1) }
    path = path == "" ? files[i] : resolved(folders[i] path)
    if (!(path in checked)) checked[path] = exists(path)
    if (!checked[path]) { print places[i] ": no such file: " links[i]; ++bad }
    else if (fragment != "" && !((path fragment) in anchors)) { print places[i] ": no such heading: " links[i]; ++bad }
  }
  if (count == 0) { print "found no links"; ++bad }
  exit bad > 0
}
