#pragma once

#include <string>

namespace tp {

// Which calls of tools an answer has.
struct CallRules {
  bool required = false;      // it consists of calls; else of text, or calls, or both
  bool has_one_call = false;  // it ends with its first one
  std::string name{};         // of the only tool that may be called; empty: all may be
};

}  // namespace tp
