#pragma once

#include <exception>
#include <string>

#include <gtest/gtest.h>

namespace tp::test {

// Returns the text of the error of type E that `action` throws, or "no error".
template <class E, class Action>
std::string error_or_none(const Action& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  }
  return "no error";
}

// Returns the text of the error of type E that `action` throws. Without an error, the test fails.
template <class E, class Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another kind of error: " << error.what();
    return {};
  }
  ADD_FAILURE() << "no error";
  return {};
}

}  // namespace tp::test
