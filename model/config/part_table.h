// Tables that describe a part of a block: a row for each of its tensors, and for each of its numbers. The
// guide is model/config/README.md.
#pragma once

#include "model/files/json_node.h"
#include "model/weights/gguf/gguf_model_metadata.h"
#include "model/weights/gguf/gguf_place.h"

#include <array>
#include <cstddef>
#include <string>

#include <nlohmann/json.hpp>

namespace tp {

// A tensor of a part.
template <class Names>
struct PartTensor {
  std::string Names::*name;
  // Its name in Hugging Face checkpoints, after the part's prefix; empty: each family names it.
  const char* usual = "";
  // Its name in GGUF files, without the prefix "blk.N."; empty: such files lack it.
  const char* gguf = "";
  // How GGUF files arrange it; null: as the checkpoint does.
  GgufPlace (*place)(const GgufContext& context) = nullptr;
  bool is_quantized = true;  // false: `quantize` keeps it in floats, even if it is a matrix
};

// A norm, whose gain some GGUF files store with an addend (GgufTensorNames::norm_offset).
GgufPlace gguf_norm(const GgufContext& context);

// The names of a part's tensors in most checkpoints.
template <class Names, std::size_t Size>
Names usual_names(const std::array<PartTensor<Names>, Size>& table, const std::string& prefix) {
  Names names;
  for (const auto& tensor : table) {
    if (*tensor.usual != '\0') names.*tensor.name = prefix + tensor.usual;
  }
  return names;
}

// The names of a part's tensors in GGUF files.
template <class Names, std::size_t Size>
Names gguf_names(const std::array<PartTensor<Names>, Size>& table) {
  Names names;
  for (const auto& tensor : table) names.*tensor.name = tensor.gguf;
  return names;
}

// A number of a part.
template <class Config>
struct PartNumber {
  std::size_t Config::*value;
  std::array<const char*, 3> fields;  // in config.json; the first name is usual
  const char* gguf = "";              // in the metadata of GGUF files, without the architecture; empty: none
};

// Reads the numbers that `fields` has. Throws CheckpointError unless they are at least 1.
template <class Table, class Config>
void read_numbers(const Table& table, const JsonNode& fields, Config& config) {
  for (const auto& number : table) {
    for (const char* const name : number.fields) {
      if (name == nullptr || !fields.has(name)) continue;
      config.*number.value = fields.at(name).size();
      break;
    }
  }
}

// The numbers of a GGUF file, as fields of config.json. Throws CheckpointError if one is missing.
template <class Table>
nlohmann::json numbers_in_gguf(const Table& table, const ModelMetadata& model) {
  nlohmann::json fields;
  for (const auto& number : table) {
    if (*number.gguf != '\0') fields[number.fields.front()] = model.whole(number.gguf);
  }
  return fields;
}

// Writes the numbers by `values`, which has a function whole(key, number).
template <class Table, class Config, class Values>
void write_numbers(const Table& table, const Config& config, Values& values) {
  for (const auto& number : table) {
    if (*number.gguf != '\0') values.whole(number.gguf, config.*number.value);
  }
}

}  // namespace tp
