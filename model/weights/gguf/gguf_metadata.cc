#include "model/weights/gguf/gguf_metadata.h"

#include "model/files/printable.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace tp {
namespace {

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Converts any kind of number to a double, which is exact for whole numbers up to 2^53.
std::optional<double> number_at(GgufKind kind, const std::byte* from) {
  switch (kind) {
    case GgufKind::u8:
      return load<std::uint8_t>(from);
    case GgufKind::i8:
      return load<std::int8_t>(from);
    case GgufKind::u16:
      return load<std::uint16_t>(from);
    case GgufKind::i16:
      return load<std::int16_t>(from);
    case GgufKind::u32:
      return load<std::uint32_t>(from);
    case GgufKind::i32:
      return load<std::int32_t>(from);
    case GgufKind::f32:
      return load<float>(from);
    case GgufKind::u64:
      return static_cast<double>(load<std::uint64_t>(from));
    case GgufKind::i64:
      return static_cast<double>(load<std::int64_t>(from));
    case GgufKind::f64:
      return load<double>(from);
    default:
      return std::nullopt;
  }
}

// Also accepts lists of equal numbers: some files have a number for each layer.
constexpr std::string_view kWhole = "a whole number that is not negative, the same for all layers";

bool is_whole(double number) {
  constexpr double kLargest = 1ULL << 53;  // a double may round larger whole numbers
  return number >= 0 && number <= kLargest && number == std::floor(number);
}

std::string_view string_at(const std::byte* from) {
  return {reinterpret_cast<const char*>(from) + sizeof(std::uint64_t), load<std::uint64_t>(from)};
}

}  // namespace

std::size_t size_of(GgufKind kind) {
  constexpr std::array<std::size_t, 13> kSizes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kSizes[static_cast<std::size_t>(kind)];
}

std::string_view name_of(GgufKind kind) {
  constexpr std::array<std::string_view, 13> kNames = {
      "u8", "i8", "u16", "i16", "u32", "i32", "f32", "boolean", "string", "array", "u64", "i64", "f64"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view GgufMetadata::text(std::string_view key) const {
  const GgufValue& value = at(key);
  if (value.is_list || value.kind != GgufKind::string) wrong(key, "a string");
  return string_at(value.bytes.data());
}

std::string_view GgufMetadata::text_or(std::string_view key, std::string_view otherwise) const {
  return has(key) ? text(key) : otherwise;
}

std::vector<std::uint64_t> GgufMetadata::wholes(std::string_view key) const {
  std::vector<std::uint64_t> all;
  for (const double number : at(key).is_list ? numbers(key) : std::vector{number(key)}) {
    if (!is_whole(number)) wrong(key, kWhole);
    all.push_back(static_cast<std::uint64_t>(number));
  }
  if (all.empty()) wrong(key, kWhole);
  return all;
}

std::vector<std::uint64_t> GgufMetadata::exact_wholes(std::string_view key) const {
  constexpr std::uint64_t kLimit = std::uint64_t{1} << 63;
  const GgufValue& value = at(key);
  std::vector<std::uint64_t> all;
  const bool is_long = value.kind == GgufKind::u64 || value.kind == GgufKind::i64;
  if (!value.is_list || !is_long) wrong(key, "a list of u64 or i64");
  for (std::uint64_t i = 0; i < value.count; ++i) {
    all.push_back(load<std::uint64_t>(value.bytes.data() + i * sizeof(std::uint64_t)));
    if (all.back() >= kLimit) wrong(key, "whole numbers below 2^63");
  }
  return all;
}

std::uint64_t GgufMetadata::whole(std::string_view key) const {
  const std::vector<std::uint64_t> all = wholes(key);
  if (std::ranges::any_of(all, [&](std::uint64_t number) { return number != all.front(); }))
    wrong(key, kWhole);
  return all.front();
}

std::uint64_t GgufMetadata::whole_or(std::string_view key, std::uint64_t otherwise) const {
  return has(key) ? whole(key) : otherwise;
}

double GgufMetadata::number(std::string_view key) const {
  const GgufValue& value = at(key);
  const std::optional<double> number =
      value.is_list ? std::nullopt : number_at(value.kind, value.bytes.data());
  if (!number || !std::isfinite(*number)) wrong(key, "a number");
  return *number;
}

double GgufMetadata::number_or(std::string_view key, double otherwise) const {
  return has(key) ? number(key) : otherwise;
}

bool GgufMetadata::boolean_or(std::string_view key, bool otherwise) const {
  if (!has(key)) return otherwise;
  const GgufValue& value = at(key);
  if (value.is_list || value.kind != GgufKind::boolean) wrong(key, "a boolean");
  return value.bytes.front() != std::byte{0};
}

std::vector<std::string_view> GgufMetadata::texts(std::string_view key) const {
  const GgufValue& value = at(key);
  if (!value.is_list || value.kind != GgufKind::string) wrong(key, "a list of strings");
  std::vector<std::string_view> result;
  result.reserve(value.count);
  const std::byte* from = value.bytes.data();
  for (std::uint64_t i = 0; i < value.count; ++i) {
    result.push_back(string_at(from));
    from += sizeof(std::uint64_t) + result.back().size();
  }
  return result;
}

std::vector<double> GgufMetadata::numbers(std::string_view key) const {
  const GgufValue& value = at(key);
  const bool is_number = value.kind != GgufKind::string && value.kind != GgufKind::boolean;
  if (!value.is_list || !is_number) wrong(key, "a list of numbers");
  std::vector<double> result(value.count);
  for (std::uint64_t i = 0; i < value.count; ++i)
    result[i] = *number_at(value.kind, value.bytes.data() + i * size_of(value.kind));
  return result;
}

std::vector<bool> GgufMetadata::booleans(std::string_view key) const {
  const GgufValue& value = at(key);
  if (!value.is_list || value.kind != GgufKind::boolean) wrong(key, "a list of true and false");
  std::vector<bool> result(value.count);
  for (std::uint64_t i = 0; i < value.count; ++i) result[i] = value.bytes[i] != std::byte{0};
  return result;
}

const GgufValue& GgufMetadata::at(std::string_view key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) {
    throw_error<CheckpointError>(
        "{}: the metadata has no {}, which a model needs; convert the checkpoint to GGUF again", where_, key);
  }
  return found->second;
}

void GgufMetadata::wrong(std::string_view key, std::string_view expected) const {
  const GgufValue& value = at(key);
  const bool is_text = value.kind == GgufKind::string && !value.is_list;
  const std::optional<double> number =
      value.is_list ? std::nullopt : number_at(value.kind, value.bytes.data());
  const std::string found = value.is_list ? fmt::format("a list of {} {}", value.count, name_of(value.kind))
                            : is_text     ? fmt::format("\"{}\"", printable(text(key)))
                            : number      ? fmt::format("{} ({})", *number, name_of(value.kind))
                                          : std::string(name_of(value.kind));
  throw_error<CheckpointError>("{}: {} must be {}, found {}; convert the checkpoint to GGUF again", where_,
                               key, expected, found);
}

}  // namespace tp
