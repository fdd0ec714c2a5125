// Boost.Serialization of standard types that Boost 1.74 lacks.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>

#include <boost/serialization/level.hpp>
#include <boost/serialization/split_free.hpp>
#include <boost/serialization/string.hpp>

namespace tp {

namespace archive_detail {

// Loads the alternative with this index, which is at least kIndex.
template <std::size_t kIndex, class Archive, class... Ts>
void load_alternative(Archive& archive, std::uint8_t index, std::variant<Ts...>& variant) {
  if constexpr (kIndex < sizeof...(Ts)) {
    if (index != kIndex) return load_alternative<kIndex + 1>(archive, index, variant);
    archive >> variant.template emplace<kIndex>();
  } else {
    throw std::out_of_range("variant index out of range");
  }
}

}  // namespace archive_detail

}  // namespace tp

namespace boost::serialization {

template <class Archive, class... Ts>
void save(Archive& archive, const std::variant<Ts...>& variant, unsigned /*version*/) {
  const auto index = static_cast<std::uint8_t>(variant.index());
  archive << index;
  std::visit([&](const auto& alternative) { archive << alternative; }, variant);
}

template <class Archive, class... Ts>
void load(Archive& archive, std::variant<Ts...>& variant, unsigned /*version*/) {
  std::uint8_t index = 0;
  archive >> index;
  tp::archive_detail::load_alternative<0>(archive, index, variant);
}

template <class Archive, class... Ts>
void serialize(Archive& archive, std::variant<Ts...>& variant, unsigned version) {
  split_free(archive, variant, version);
}

template <class Archive, class T>
void save(Archive& archive, const std::optional<T>& optional, unsigned /*version*/) {
  const bool has_value = optional.has_value();
  archive << has_value;
  if (has_value) archive << *optional;
}

template <class Archive, class T>
void load(Archive& archive, std::optional<T>& optional, unsigned /*version*/) {
  bool has_value = false;
  archive >> has_value;
  if (!has_value) return optional.reset();
  optional = T();
  archive >> *optional;
}

template <class Archive, class T>
void serialize(Archive& archive, std::optional<T>& optional, unsigned version) {
  split_free(archive, optional, version);
}

template <class Archive>
void save(Archive& archive, const std::filesystem::path& path, unsigned /*version*/) {
  const std::string text = path.string();
  archive << text;
}

template <class Archive>
void load(Archive& archive, std::filesystem::path& path, unsigned /*version*/) {
  std::string text;
  archive >> text;
  path = text;
}

template <class Archive>
void serialize(Archive& archive, std::filesystem::path& path, unsigned version) {
  split_free(archive, path, version);
}

template <class Archive, class Rep, class Period>
void save(Archive& archive, const std::chrono::duration<Rep, Period>& duration, unsigned /*version*/) {
  const Rep count = duration.count();
  archive << count;
}

template <class Archive, class Rep, class Period>
void load(Archive& archive, std::chrono::duration<Rep, Period>& duration, unsigned /*version*/) {
  Rep count{};
  archive >> count;
  duration = std::chrono::duration<Rep, Period>(count);
}

template <class Archive, class Rep, class Period>
void serialize(Archive& archive, std::chrono::duration<Rep, Period>& duration, unsigned version) {
  split_free(archive, duration, version);
}

// Disables class versions, which would only make messages larger.
struct WithoutVersion {
  using tag = mpl::integral_c_tag;
  using type = mpl::int_<object_serializable>;
  static constexpr int value = object_serializable;
};
template <class... Ts>
struct implementation_level_impl<const std::variant<Ts...>> : WithoutVersion {};
template <class T>
struct implementation_level_impl<const std::optional<T>> : WithoutVersion {};

}  // namespace boost::serialization
