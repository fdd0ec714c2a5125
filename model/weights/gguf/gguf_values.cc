#include "model/weights/gguf/gguf_values.h"

namespace tp {
namespace {

std::string kind_bytes(GgufKind kind) { return gguf_bytes(static_cast<std::uint32_t>(kind)); }

template <class Number>
std::string_view bytes_of(std::span<const Number> numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes()};
}

}  // namespace

std::string gguf_bytes(std::string_view text) { return gguf_bytes(std::uint64_t{text.size()}).append(text); }

void GgufValues::text(std::string_view key, std::string_view value) {
  set(key, GgufKind::string, gguf_bytes(value));
}
void GgufValues::whole(std::string_view key, std::uint32_t value) {
  set(key, GgufKind::u32, gguf_bytes(value));
}
void GgufValues::number(std::string_view key, float value) { set(key, GgufKind::f32, gguf_bytes(value)); }
void GgufValues::boolean(std::string_view key, bool value) {
  set(key, GgufKind::boolean, gguf_bytes(static_cast<std::uint8_t>(value)));
}

void GgufValues::texts(std::string_view key, std::span<const std::string> values) {
  std::string elements;
  for (const std::string& value : values) elements += gguf_bytes(std::string_view(value));
  set_list(key, GgufKind::string, values.size(), elements);
}
void GgufValues::wholes(std::string_view key, std::span<const std::int32_t> values) {
  set_list(key, GgufKind::i32, values.size(), bytes_of(values));
}
void GgufValues::wholes(std::string_view key, std::span<const std::uint64_t> values) {
  set_list(key, GgufKind::u64, values.size(), bytes_of(values));
}
void GgufValues::numbers(std::string_view key, std::span<const float> values) {
  set_list(key, GgufKind::f32, values.size(), bytes_of(values));
}

void GgufValues::booleans(std::string_view key, const std::vector<bool>& values) {
  set_list(key, GgufKind::boolean, values.size(), std::string(values.begin(), values.end()));
}

void GgufValues::copy(std::string_view key, const GgufValue& value) {
  const std::string_view bytes(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size());
  value.is_list ? set_list(key, value.kind, value.count, bytes) : set(key, value.kind, std::string(bytes));
}

std::string GgufValues::bytes() const {
  std::string all;
  for (const auto& [key, value] : values_) all.append(gguf_bytes(std::string_view(key))).append(value);
  return all;
}

void GgufValues::set(std::string_view key, GgufKind kind, std::string bytes) {
  values_[std::string(key)] = kind_bytes(kind) + std::move(bytes);
}

void GgufValues::set_list(std::string_view key, GgufKind kind, std::size_t count, std::string_view elements) {
  set(key, GgufKind::array, kind_bytes(kind) + gguf_bytes(std::uint64_t{count}) + std::string(elements));
}

}  // namespace tp
