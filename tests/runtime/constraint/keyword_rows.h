// Rows of tests about the keywords of schemas: texts that a schema allows, and texts that it does not allow.
#pragma once

#include "tests/runtime/constraint/text_matcher.h"
#include "tp/error.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tp::constraint {

struct KeywordRow {
  const char* keyword;
  const char* schema;
  std::vector<std::string> valid;
  std::vector<std::string> invalid;
};

inline void expect_rows(const std::vector<KeywordRow>& rows) {
  for (const KeywordRow& row : rows) {
    try {
      TextMatcher matcher(Constraint(JsonSchema{row.schema}));
      for (const std::string& text : row.valid)
        EXPECT_TRUE(matcher.matches(text)) << row.keyword << ": " << row.schema << "\n" << text;
      for (const std::string& text : row.invalid)
        EXPECT_FALSE(matcher.matches(text)) << row.keyword << ": " << row.schema << "\n" << text;
    } catch (const RequestError& error) {
      ADD_FAILURE() << row.keyword << ": " << row.schema << "\n" << error.what();
    }
  }
}

}  // namespace tp::constraint
