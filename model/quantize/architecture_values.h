// Metadata of a GGUF file whose keys begin with the architecture.
#pragma once

#include "model/weights/gguf/gguf_values.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

class ArchitectureValues {
 public:
  ArchitectureValues(const std::string& architecture, GgufValues& values)
      : prefix_(architecture + "."), values_(values) {}

  void text(const char* key, std::string_view value) { values_.text(prefix_ + key, value); }
  void whole(const char* key, std::size_t value) {
    values_.whole(prefix_ + key, static_cast<std::uint32_t>(value));
  }
  void number(const char* key, double value) { values_.number(prefix_ + key, static_cast<float>(value)); }
  void boolean(const char* key, bool value) { values_.boolean(prefix_ + key, value); }
  void wholes(const char* key, std::span<const std::int32_t> all) { values_.wholes(prefix_ + key, all); }
  void wholes(const char* key, std::span<const std::uint64_t> all) { values_.wholes(prefix_ + key, all); }
  void numbers(const char* key, std::span<const float> all) { values_.numbers(prefix_ + key, all); }
  void booleans(const char* key, const std::vector<bool>& all) { values_.booleans(prefix_ + key, all); }
  // Writes a number for each layer, unless there are none.
  void numbers_if(const char* key, const std::vector<double>& all) {
    if (!all.empty()) values_.numbers(prefix_ + key, std::vector<float>(all.begin(), all.end()));
  }
  // Writes four numbers, with 0 for missing ones.
  void sections(const char* key, const std::vector<std::size_t>& numbers) {
    std::array<std::int32_t, 4> all{};
    std::copy_n(numbers.begin(), std::min(numbers.size(), all.size()), all.begin());
    wholes(key, all);
  }
  // Writes a value unless it is 0, which means that the model lacks it.
  void whole_if(const char* key, std::size_t value) {
    if (value != 0) whole(key, value);
  }
  void number_if(const char* key, double value) {
    if (value != 0.0) number(key, value);
  }

 private:
  std::string prefix_;
  GgufValues& values_;
};

}  // namespace tp
