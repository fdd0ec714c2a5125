// Weights by a formula: a fixture lists its tensors, and this code computes their elements.
//
// An element is a hash of its tensor's name and of its number in row-major order, mapped to the range base -
// amplitude to base + amplitude. So fixtures need no weight files, and any program can compute the weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp::reference {

std::uint64_t splitmix64(std::uint64_t x);
std::uint64_t fnv1a64(std::string_view text);

// The hash z(i) of a tensor's elements.
class ElementHash {
 public:
  ElementHash(const std::string& name, const std::string& salt)
      : start_(fnv1a64(salt.empty() ? name : name + "#" + salt)) {}
  std::uint64_t operator()(std::uint64_t element) const { return splitmix64(start_ + element); }

 private:
  std::uint64_t start_;
};

struct SeededTensor {
  std::string name;
  std::string dtype;  // as in safetensors: F32, BF16, U8, I64, BOOL
  std::vector<std::size_t> shape;
  std::string bytes;  // little-endian
};

// `entry` is one of the `tensors` of a weights.json.
SeededTensor seeded_tensor(const nlohmann::json& entry, const std::string& salt);

// Writes the model.safetensors that a weights.json describes. Throws Error if the file cannot be written.
void write_seeded_weights(const std::filesystem::path& description, const std::filesystem::path& output);

// Writes `folder` with all of its fixtures to `output`: weights instead of every weights.json, copies of the
// other files, and the greedy ids of an expected.json as a greedy.json.
void write_seeded_fixtures(const std::filesystem::path& folder, const std::filesystem::path& output);

}  // namespace tp::reference
