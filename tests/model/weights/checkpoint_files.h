// Safetensors files with any content, for tests of checkpoints.
#pragma once

#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp::test {

// The bytes of an array.
template <class T>
std::string bytes_of(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// A safetensors file with any header, valid or not. The header's length is correct.
inline std::string file_with_header(const std::string& header, const std::string& data = "") {
  return bytes_of(std::vector<std::uint64_t>{header.size()}) + header + data;
}

struct TestTensor {
  std::string name;
  std::string dtype;
  std::vector<std::size_t> shape;
  std::string data;
};

// A valid safetensors file.
inline std::string safetensors_file(const std::vector<TestTensor>& tensors) {
  nlohmann::json header = {{"__metadata__", {{"format", "pt"}}}};
  std::string data;
  for (const TestTensor& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {data.size(), data.size() + tensor.data.size()}}};
    data += tensor.data;
  }
  return file_with_header(header.dump(), data);
}

// A float32 tensor of the elements 0, 1, 2...
inline TestTensor counting_tensor(const std::string& name, const std::vector<std::size_t>& shape) {
  std::size_t size = 1;
  for (const std::size_t extent : shape) size *= extent;
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = static_cast<float>(i);
  return {name, "F32", shape, bytes_of(values)};
}

}  // namespace tp::test
