# Reads CTest's Testing/Temporary/LastTest.log. Prints a table of the tests that were skipped, by reason, which includes
# TESTs inside whole GoogleTest programs, which CTest reports as passed. Prints the tests that failed once and then passed.
function add(name, why) {
  gsub(/^[ \t]+|[ \t]+$/, "", why)
  if (why == "") why = "no reason given"
  if ((name, why) in seen) return
  seen[name, why] = 1
  if (!(why in count)) reasons[++number_of_reasons] = why
  count[why]++
  names[why] = count[why] == 1 ? name : names[why] ", " name
  total++
}
/^[0-9]+\/[0-9]+ Testing: / { test = $0; sub(/^[0-9]+\/[0-9]+ Testing: /, "", test); message = "" }
/^Test Failed\.$/ { failed[test] = 1 }
/^Test Passed\.$/ && test in failed { again = again == "" ? test : again ", " test }
/^\[ RUN      \]/ { message = "" }
/: Skipped$/ { wants_message = 1; next }
wants_message { message = $0; wants_message = 0; next }
# GoogleTest lists skipped TESTs twice: where they run, with their time, and at the end.
/^\[  SKIPPED \] .*\([0-9]+ ms\)/ { add($4, message); message = "" }
/^skipped: / { add(test, substr($0, 10)) }
/no more than this machine's .*; found/ { add(test, "this machine lacks the instruction set") }
END {
  if (again != "") print "Passed only when they ran again: " again
  if (total == 0) { print "No test was skipped."; exit }
  printf "Skipped tests: %d\n", total
  for (i = 1; i <= number_of_reasons; ++i) {
    why = reasons[i]
    list = length(names[why]) > 160 ? substr(names[why], 1, 157) "..." : names[why]
    printf "%5d  %s\n       %s\n", count[why], why, list
  }
}
