# Finds classes, functions and variables of namespace tp that two files define. The linker keeps one of two inline functions, and
# drops the other without a message, so code that was compiled for one class runs the member functions of the other.
#
#   awk -f tests/check_definitions.awk FILE...
#
# Named namespaces are part of a name. Names in anonymous namespaces are excluded. The script relies on clang-format: definitions at
# namespace scope begin in the first column, and the lines of their bodies don't.

# "namespace tp::kernels {" -> "tp::kernels::"; "" for an anonymous namespace.
function name_of_namespace(line) {
  sub(/^(inline )?namespace */, "", line)
  sub(/ *\{.*/, "", line)
  return line == "" ? "" : line "::"
}

# The names of the open namespaces; "" within an anonymous one.
function scope(  text, i) {
  for (i = 1; i <= depth; ++i) {
    if (names[i] == "") return ""
    text = text names[i]
  }
  return text
}

# "template <class T> void f(T)" -> "void f(T)".
function without_parameters(text,  level, i, c) {
  for (i = 1; i <= length(text); ++i) {
    c = substr(text, i, 1)
    if (c == "<") ++level
    if (c == ">" && --level == 0) break
  }
  text = substr(text, i + 1)
  sub(/^ *(requires \([^()]*\) )?/, "", text)
  return text
}

# "(int a, const Text& b = {})" -> "(int, const Text&)": the names and default values of parameters don't distinguish functions.
function without_names(list,  end) {
  gsub(/ = [^,()]*/, "", list)
  while (match(list, / [A-Za-z_0-9]+[,)]/)) {
    end = substr(list, RSTART + RLENGTH - 1, 1)
    list = substr(list, 1, RSTART - 1) "\1" end substr(list, RSTART + RLENGTH)
  }
  gsub(/\1/, "", list)
  return list
}

function note(name, kind,  place) {
  place = FILENAME ":" FNR
  if (name in file_of && file_of[name] != FILENAME) {
    print place ": defines the " kind " " name ", which " place_of[name] " defines, too. Rename one of them, or put it into an anonymous namespace."
    ++wrong
  }
  file_of[name] = FILENAME
  place_of[name] = place
}

# `text`: a declaration, up to its "{" or ";".
function look_at(text,  prefix, name, bracket, value) {
  prefix = scope()
  if (prefix !~ /^tp::/) return
  gsub(/[ \t]+/, " ", text)
  while (text ~ /^template </) text = without_parameters(text)
  if (text ~ /^(using|friend|extern|template|static) / || text ~ /^(static_assert|[A-Z_0-9]+)\(/) return  # TEST(A, B) {
  sub(/^\[\[[a-z]*\]\] /, "", text)
  if (sub(/^(class|struct|union|enum class|enum) /, "", text)) {
    sub(/^(\[\[[a-z]*\]\]|alignas\([^)]*\)) /, "", text)
    if (sub(/( final)?( :[^:].*)? ?\{$/, "", text)) note(prefix text, "class")
    return
  }
  bracket = index(text, "(")
  value = match(text, /( = |\{|\[|;$)/)
  if (text ~ /operator/ || bracket > 0 && (value == 0 || bracket < value)) {
    if (text !~ /\{$/) return
    bracket = text ~ /operator\(\)/ ? index(text, "()(") + 2 : bracket
    name = substr(text, 1, bracket - 1)
    sub(/.* [*&]*/, "", name)
    text = substr(text, bracket)
    sub(/( : .*)? ?\{$/, "", text)
    note(prefix name without_names(text), "function")
  } else if (text ~ /^inline / || text !~ /^const(expr)? /) {  # each file has its own constants
    name = substr(text, 1, value - 1)
    if (sub(/.* [*&]*/, "", name)) note(prefix name, "variable")
  }
}

FNR == 1 { depth = in_body = continued = 0; pending = "" }
continued || /^ *#/ { continued = /\\$/; next }
/^\}  \/\/ namespace/ { if (depth > 0) --depth; in_body = 0; next }
{ sub(/ *\/\/.*$/, "") }
/^$/ || /^\}/ || /^(inline )?namespace .*(=|\}$)/ { next }
/^(inline )?namespace.*\{$/ { names[++depth] = name_of_namespace($0); next }
/^[^ ]/ { in_body = 0 }
in_body { next }
{ pending = pending $0 " " }
/[;{}]$/ {
  in_body = /\{$/
  sub(/ $/, "", pending)
  sub(/\{.*\};?$/, "{", pending)
  look_at(pending)
  pending = ""
}
END { exit wrong > 0 }
