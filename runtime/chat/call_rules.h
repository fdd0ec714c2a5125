#pragma once

#include <string>

namespace tp {

// Rules for the tool calls of an answer.
struct CallRules {
  bool required = false;      // only calls are allowed; else text, calls, or both
  bool has_one_call = false;  // the answer ends after its first call
  std::string name{};         // the only allowed tool; empty: all tools are allowed
};

}  // namespace tp
