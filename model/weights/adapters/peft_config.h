// The settings of an adapter in PEFT's layout (adapter_config.json).
#pragma once

#include "model/tokenizer/text/regex.h"

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace tp {

class PeftConfig {
 public:
  // Throws CheckpointError if the file is damaged, and ConfigError if it asks for something that tp-infer
  // does not do.
  explicit PeftConfig(const std::filesystem::path& file);

  // The factor of B A for a module with this path and rank.
  double scale_of(const std::string& module, std::size_t rank) const;
  // Whether embeddings and heads that are tied in the model are to stay tied.
  bool keeps_tied() const { return keeps_tied_; }

 private:
  double alpha_ = 8.0;
  bool uses_root_ = false;
  bool keeps_tied_ = false;
  std::string file_;
  std::vector<std::pair<Regex, double>> alphas_;  // in the file's order: the first match counts
};

}  // namespace tp
