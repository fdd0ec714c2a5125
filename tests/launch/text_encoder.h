// Encoders of tests/data, with a tokenizer.
#pragma once

#include "tests/model/weights/checkpoint_files.h"

#include <filesystem>
#include <string>

namespace tp::test {

// A copy of a fixture with a tokenizer of a few words: "[CLS] a text [SEP]", and for pairs "[CLS] a [SEP] b
// [SEP]" with types 0 and 1. [CLS] is 1, [SEP] 2 and [MASK] 3; "red" 10, "green" 11, "blue" 12, "sky" 13.
class TextEncoder {
 public:
  explicit TextEncoder(const std::string& fixture);
  std::string path() const { return directory_.path().string(); }
  const TemporaryDirectory& directory() const { return directory_; }

 private:
  TemporaryDirectory directory_;
};

}  // namespace tp::test
