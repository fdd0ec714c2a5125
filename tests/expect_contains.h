#pragma once

#include <gtest/gtest.h>

namespace tp::test {

template <class Text, class Part>
::testing::AssertionResult contains(const char* /*text*/, const char* /*part*/, const Text& text,
                                    const Part& part) {
  if (text.find(part) != Text::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "expected: " << part << "\nin: " << text;
}

}  // namespace tp::test

// Checks that a text contains another one. Shows both if not.
#define EXPECT_CONTAINS(text, part) EXPECT_PRED_FORMAT2(::tp::test::contains, text, part)
