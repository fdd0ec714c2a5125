// A checkpoint with a tokenizer, and variants with one defect each.
#pragma once

#include "tests/model/weights/checkpoint_files.h"

#include <filesystem>
#include <string>

namespace tp::test {

// A small Llama (4 heads, 2 KV heads) with random weights and the tokenizer gemma-style of tests/data. It
// generates nonsense, but always the same.
class TextModel {
 public:
  TextModel();
  std::string path() const { return directory_.path().string(); }

 private:
  TemporaryDirectory directory_;
};

// The folder of the seeded fixture.
std::filesystem::path fixture_folder(const std::string& name);

// Writable copies of checkpoints in a temporary folder.
class CheckpointCopies {
 public:
  // Copies the fixture.
  std::filesystem::path copy(const std::string& fixture, const std::string& name) const;
  std::filesystem::path path() const { return directory_.path(); }

 private:
  TemporaryDirectory directory_;
};

// Replaces members of a folder's config.json.
void change_config(const std::filesystem::path& folder, const nlohmann::json& changes);

nlohmann::json read_json(const std::filesystem::path& path);

}  // namespace tp::test
