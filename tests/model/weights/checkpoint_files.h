// Files for tests of checkpoints: a temporary directory, and safetensors files with any content.
#pragma once

#include "tp/error.h"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <stdlib.h>

namespace tp::test {

// A new directory. The destructor removes it with all its files.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "tp-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw Error("cannot make a temporary directory");
    path_ = name;
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }

  const std::filesystem::path& path() const { return path_; }

  // Writes a file with this content and returns its path.
  std::filesystem::path write(const std::string& name, std::string_view content) const {
    const std::filesystem::path path = path_ / name;
    std::ofstream(path, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
    return path;
  }

  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      names.push_back(entry.path().filename());
    return names;
  }

 private:
  std::filesystem::path path_;
};

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

// Returns the text of the error of type E that `action` throws. Without an error, the test fails.
template <class E, class Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another kind of error: " << error.what();
    return {};
  }
  ADD_FAILURE() << "no error";
  return {};
}

}  // namespace tp::test

// Checks that a text contains another one. Shows both if not.
#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << "in: " << (text)
