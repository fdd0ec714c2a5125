#include "model/weights/checkpoint/strict_json.h"

#include "model/weights/checkpoint/printable.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace tp {
namespace {

constexpr std::size_t kMaxDepth = 64;

// Builds the document from the parser's events. A member is inserted when its key is met, which tells at no
// cost whether the object had it before.
template <class Json>
class Builder {
 public:
  Json take() { return std::move(document_); }

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(typename Json::number_integer_t value) { return add(value); }
  bool number_unsigned(typename Json::number_unsigned_t value) { return add(value); }
  bool number_float(typename Json::number_float_t value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(typename Json::binary_t& value) { return add(std::move(value)); }

  bool start_object(std::size_t) { return open(Json::object()); }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    const auto [member, is_new] = open_.back()->emplace(name, nullptr);
    if (!is_new) throw JsonError(fmt::format("an object has the key {} twice", printable(name)));
    member_ = &*member;
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) {
    const std::string text = error.what();  // "[json.exception.parse_error.101] parse error at line 2, ..."
    throw JsonError(text.substr(text.find("] ") + 2));
  }

 private:
  // Puts a value where the text is; returns its place.
  Json* put(Json&& value) {
    if (open_.empty()) return &(document_ = std::move(value));
    if (open_.back()->is_object()) return &(*member_ = std::move(value));
    return &open_.back()->emplace_back(std::move(value));
  }

  bool add(Json&& value) {
    put(std::move(value));
    return true;
  }

  bool open(Json&& value) {
    if (open_.size() == kMaxDepth)
      throw JsonError(fmt::format("lists and objects are nested deeper than {} levels", kMaxDepth));
    open_.push_back(put(std::move(value)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  Json document_;
  std::vector<Json*> open_;  // the lists and objects that have begun, outermost first
  Json* member_ = nullptr;   // of the innermost object: the value of the last key
};

}  // namespace

template <class Json>
Json parse_strict_json(std::string_view text) {
  Builder<Json> builder;
  Json::sax_parse(text, &builder);
  return builder.take();
}

template nlohmann::json parse_strict_json(std::string_view text);
template nlohmann::ordered_json parse_strict_json(std::string_view text);

}  // namespace tp
