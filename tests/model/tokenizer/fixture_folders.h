// Folders of tokenizers with expected values. The test's build defines their paths.
#pragma once

#include <filesystem>
#include <string>

namespace tp::testing {

// Tokenizers made for tests, which the repository contains.
inline std::filesystem::path copied_folder(const std::string& name) {
  return std::filesystem::path(TP_TEST_DATA) / "tokenizers" / name;
}

// Published tokenizers, which the repository doesn't contain. A machine may not have them.
inline std::filesystem::path shared_folder(const std::string& name) {
  return std::filesystem::path(TP_SHARED_FIXTURES) / "tokenizers" / name;
}

}  // namespace tp::testing
