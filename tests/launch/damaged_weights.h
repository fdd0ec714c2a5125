// Changes a checkpoint's weights in one file.
#pragma once

#include "tests/model/weights/checkpoint_files.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp::test {

constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

// Writes `value` over the elements [first, first + count) of a tensor in float32 or bf16. A count of 0 means
// all elements from `first` on.
inline void overwrite(const std::filesystem::path& folder, const std::string& tensor, float value,
                      std::size_t first, std::size_t count) {
  std::fstream file(folder / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  std::uint64_t size = 0;
  file.read(reinterpret_cast<char*>(&size), sizeof size);
  std::string header(size, '\0');
  file.read(header.data(), static_cast<std::streamsize>(size));
  const nlohmann::json entry = nlohmann::json::parse(header).at(tensor);
  const auto offsets = entry.at("data_offsets").get<std::vector<std::uint64_t>>();
  const bool is_bf16 = entry.at("dtype") == "BF16";
  const std::size_t bytes = is_bf16 ? 2 : 4;
  if (count == 0) count = (offsets[1] - offsets[0]) / bytes - first;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value) >> (is_bf16 ? 16 : 0);
  file.seekp(static_cast<std::streamoff>(sizeof size + size + offsets[0] + first * bytes));
  for (std::size_t i = 0; i < count; ++i) file.write(reinterpret_cast<const char*>(&bits), bytes);
}

}  // namespace tp::test
