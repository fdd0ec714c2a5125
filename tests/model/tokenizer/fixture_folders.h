// Folders of tokenizers with expected values. The build of a test defines where they are.
#pragma once

#include <filesystem>
#include <string>

namespace tp::testing {

// Those made for tests, which the repository holds.
inline std::filesystem::path copied_folder(const std::string& name) {
  return std::filesystem::path(TP_TEST_DATA) / "tokenizers" / name;
}

// Those of other people, which the repository does not hold and a machine may not have.
inline std::filesystem::path shared_folder(const std::string& name) {
  return std::filesystem::path(TP_SHARED_FIXTURES) / "tokenizers" / name;
}

}  // namespace tp::testing
