// Errors about bodies that are not JSON use our words, not those of the JSON library.
#include "runtime/api/api_call.h"
#include "tests/error_of.h"

#include <string>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

std::string fault_of(const std::string& body) {
  return error_of<RequestError>([&] { parse_body(body); });
}

TEST(BodyFaults, AreSentencesWithTheirPlace) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "line 1, column 1: expected a value, found the end of the text"},
      {"{", "line 1, column 2: expected a name in quotation marks, found the end of the text"},
      {"{\"a\"", "line 1, column 5: expected a colon after a name, found the end of the text"},
      {"{\"a\" 1}", "line 1, column 6: expected a colon after a name, found a number"},
      {"{\"a\": 1", "line 1, column 8: expected a comma or }, found the end of the text"},
      {"{\"a\": 1,}", "line 1, column 9: expected a name in quotation marks, found }"},
      {"{\"a\": [1 2]}", "line 1, column 10: expected a comma or ], found a number"},
      {"{\"a\":\n}", "line 2, column 1: expected a value, found }"},
      {"{\"a\": 1} \"b\"", "line 1, column 12: expected the end of the text, found a text"},
      {"{'a': 1}",
       "line 1, column 2: expected a value such as \"text\", 1, true or null, found other characters"},
      {"{\"a\": \"b", "line 1, column 9: expected a closing quotation mark, found none"},
      {"{\"a\": \"b\n\"}",
       "line 2, column 0: expected a text without control characters, found one; write \\n for a line break"},
      {"{\"a\": \"\\d\"}", "line 1, column 9: expected an escape such as \\n, found another character"},
      {"{\"a\": \"\\u12\"}", "line 1, column 12: expected four hexadecimal digits after \\u, found others"},
      {"{\"a\": \"\\ud800\"}", "line 1, column 14: expected pairs of surrogates, found half of one"},
      {"{\"a\": -}", "line 1, column 8: expected a whole or decimal number, found an incomplete one"},
      {"{\"a\": 1e999}", "expected a number of 64 bits, found a larger one"},
      {"{\"a\": \"\xff\"}", "line 1, column 8: expected UTF-8, found other bytes"},
  };
  for (const auto& [body, fault] : cases) EXPECT_EQ(fault_of(body), "the body is not JSON: " + fault) << body;
}

}  // namespace
}  // namespace tp::test
