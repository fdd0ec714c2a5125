#include "runtime/api/request_fields.h"

#include "runtime/api/constraint_fields.h"
#include "runtime/api/rounded.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <type_traits>
#include <utility>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Json = nlohmann::json;

[[noreturn]] void wrong_type(std::string_view expected, const Json& found) {
  throw_error<RequestError>("expected {}, found {}", expected, found.dump());
}

// Python clients also write whole numbers as 50.0.
bool is_whole(const Json& value) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  return value.is_number_float() && std::abs(value.get<double>()) <= kExact &&
         std::trunc(value.get<double>()) == value.get<double>();
}

// nlohmann::json compares an unsigned number as the signed number with the same bits.
bool is_int(const Json& value) {
  if (is_whole(value)) return std::in_range<int>(value.get<std::int64_t>());
  if (value.is_number_unsigned()) return std::in_range<int>(value.get<std::uint64_t>());
  return value.is_number_integer() && std::in_range<int>(value.get<std::int64_t>());
}

// Request::validate, which knows the field, checks the lower bound.
void read(const Json& value, int& target, int min) {
  if (!is_int(value))
    wrong_type(fmt::format("a whole number from {} to {}", min, std::numeric_limits<int>::max()), value);
  target = value.get<int>();
}

// Reads a seed. -1 means a random seed, as in llama.cpp and vLLM; other negative numbers are valid seeds.
void read(const Json& value, std::optional<std::uint64_t>& target) {
  if (!value.is_number_integer() && !is_whole(value)) wrong_type("a whole number of 64 bits", value);
  target.reset();
  // The conversion of a negative float to an unsigned integer is undefined in C++.
  if (value.is_number_unsigned())
    target = value.get<std::uint64_t>();
  else if (value != -1)
    target = static_cast<std::uint64_t>(value.get<std::int64_t>());
}

void read(const Json& value, std::optional<TokenId>& target) {
  if (!is_int(value)) wrong_type("a token id", value);
  target = value.get<int>();
}

void read(const Json& value, float& target) {
  const bool fits = value.is_number() && std::abs(value.get<double>()) <= std::numeric_limits<float>::max();
  if (!fits) wrong_type("a number", value);
  target = value.get<float>();
}

void read(const Json& value, bool& target) {
  if (!value.is_boolean()) wrong_type("true or false", value);
  target = value.get<bool>();
}

void read(const Json& value, std::string& target) {
  if (!value.is_string()) wrong_type("a text", value);
  target = value.get<std::string>();
}

void read(const Json& value, std::optional<std::string>& target) {
  if (!value.is_string()) wrong_type("a text", value);
  target = value.get<std::string>();
}

void read(const Json& value, std::vector<std::string>& target) {
  const Json list = value.is_string() ? Json::array({value}) : value;
  const bool texts = list.is_array() &&
                     std::all_of(list.begin(), list.end(), [](const Json& text) { return text.is_string(); });
  if (!texts) wrong_type("a text or a list of texts", value);
  target = list.get<std::vector<std::string>>();
}

void read(const Json& value, std::vector<TokenId>& target) {
  static_assert(std::is_same_v<TokenId, int>);
  const bool ids = value.is_array() && std::all_of(value.begin(), value.end(), is_int);
  if (!ids) wrong_type("a list of token ids", value);
  target = value.get<std::vector<TokenId>>();
}

void read(const Json& value, std::vector<std::vector<TokenId>>& target) {
  if (!value.is_array()) wrong_type("a list of lists of token ids", value);
  target.clear();
  for (const Json& row : value) read(row, target.emplace_back());
}

// OpenAI's format: {"token id": bias}.
void read(const Json& value, std::vector<LogitBias>& target) {
  constexpr const char* kExpected = "an object of token ids and what is added to their logits";
  if (!value.is_object()) wrong_type(kExpected, value);
  target.clear();
  for (const auto& [key, bias] : value.items()) {
    LogitBias& entry = target.emplace_back();
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), entry.id);
    if (error != std::errc() || end != key.data() + key.size()) wrong_type(kExpected, value);
    read(bias, entry.bias);
  }
}

Json written(const std::vector<LogitBias>& value) {
  Json biases = Json::object();
  for (const LogitBias& entry : value) biases[std::to_string(entry.id)] = rounded(entry.bias);
  return biases;
}

template <class T>
Json written(const T& value) {
  return value;
}

Json written(float value) { return rounded(value); }

Json written(const std::optional<std::string>& value) { return value ? Json(*value) : Json(); }
Json written(const std::optional<TokenId>& value) { return value ? Json(*value) : Json(); }
Json written(const std::optional<std::uint64_t>& value) { return value ? Json(*value) : Json(); }

// Reads one setting from JSON, and writes it to JSON.
struct Field {
  std::function<void(const Json&, Request&)> set;
  std::function<Json(const Request&)> get;
};

template <class T>
Field of_request(T Request::*member) {
  return {[member](const Json& value, Request& request) { read(value, request.*member); },
          [member](const Request& request) { return written(request.*member); }};
}

Field of_request(int Request::*member, int min) {
  return {[=](const Json& value, Request& request) { read(value, request.*member, min); },
          [=](const Request& request) { return request.*member; }};
}

// -1 means all tokens, as in vLLM.
Field top_k() {
  return {[](const Json& value, Request& request) {
            read(value, request.sampling.top_k, 0);
            if (value == -1) request.sampling.top_k = 0;
          },
          [](const Request& request) { return request.sampling.top_k; }};
}

Field of_sampling(int SamplingParams::*member, int min) {
  return {[=](const Json& value, Request& request) { read(value, request.sampling.*member, min); },
          [=](const Request& request) { return request.sampling.*member; }};
}

template <class T>
Field of_sampling(T SamplingParams::*member) {
  return {[member](const Json& value, Request& request) { read(value, request.sampling.*member); },
          [member](const Request& request) { return written(request.sampling.*member); }};
}

// The chat template provides the markers of thinking, see begin_completion.
Field thinking_limit() {
  return {
      [](const Json& value, Request& request) {
        if (!request.thinking) request.thinking.emplace();
        read(value, request.thinking->max_tokens, 0);
      },
      [](const Request& request) { return request.thinking ? Json(request.thinking->max_tokens) : Json(); }};
}

// A single beam disables beam search.
Field beams() {
  return {
      [](const Json& value, Request& request) {
        if (!request.beam_search) request.beam_search.emplace();
        read(value, request.beam_search->beams, 1);
        if (request.beam_search->beams == 1) request.beam_search.reset();
      },
      [](const Request& request) { return request.beam_search ? Json(request.beam_search->beams) : Json(); }};
}

void require_beams(const Request& request) {
  require<RequestError>(request.beam_search.has_value(),
                        "it is a setting of beam search, expected `beams` with it, found none; add `beams`, "
                        "more than 1, or leave it out");
}

// The cache stores a salt beside the prompt's tokens, and compares it in each search.
Field cache_salt() {
  static constexpr std::size_t kMaxBytes = 1024;
  return {[](const Json& value, Request& request) {
            read(value, request.cache_salt);
            require<RequestError>(request.cache_salt.size() <= kMaxBytes,
                                  "expected at most {} bytes, found {}; use a hash of the text", kMaxBytes,
                                  request.cache_salt.size());
          },
          [](const Request& request) { return request.cache_salt; }};
}

Field length_penalty() {
  return {[](const Json& value, Request& request) {
            require_beams(request);
            read(value, request.beam_search->length_penalty);
          },
          [](const Request& request) {
            return request.beam_search ? Json(rounded(request.beam_search->length_penalty)) : Json();
          }};
}

// As in transformers: true, false or "never".
Field early_stopping() {
  using Stop = BeamSearch::Stop;
  return {[](const Json& value, Request& request) {
            require_beams(request);
            if (!value.is_boolean() && value != "never") wrong_type("true, false or \"never\"", value);
            const bool early = value.is_boolean() && value.get<bool>();
            request.beam_search->stop = value.is_string() ? Stop::never : early ? Stop::early : Stop::likely;
          },
          [](const Request& request) {
            if (!request.beam_search) return Json();
            if (request.beam_search->stop == Stop::never) return Json("never");
            return Json(request.beam_search->stop == Stop::early);
          }};
}

// Written only if the request sets it.
Field rare(const Field& field) {
  return {field.set, [field](const Request& request) {
            Json value = field.get(request);
            return value == field.get(Request()) ? Json() : value;
          }};
}

Field of_constraint(const std::string& name) {
  return {
      [name](const Json& value, Request& request) { set_constraint_field(name, value, request.constraint); },
      [name](const Request& request) { return constraint_field(name, request.constraint); }};
}

// A setting of Request::unmasking, which is created with its first setting.
template <class Set, class Get>
Field of_unmasking(const Set& set, const Get& get) {
  return {
      [set](const Json& value, Request& request) {
        if (!request.unmasking) request.unmasking.emplace();
        set(value, *request.unmasking);
      },
      [get](const Request& request) { return request.unmasking ? Json(get(*request.unmasking)) : Json(); }};
}

// 0 stands for the default, and is neither read nor written.
Field of_unmasking(int Unmasking::*member) {
  return of_unmasking(
      [member](const Json& value, Unmasking& settings) {
        read(value, settings.*member, 1);
        if (settings.*member == 0) wrong_type("a whole number from 1", value);
      },
      [member](const Unmasking& settings) {
        return settings.*member == 0 ? Json() : Json(settings.*member);
      });
}

Field unmask_rule() {
  return of_unmasking(
      [](const Json& value, Unmasking& settings) {
        const std::optional<UnmaskRule> rule =
            value.is_string() ? find_unmask_rule(value.get<std::string>()) : std::nullopt;
        if (!rule) wrong_type(fmt::format("one of {}", fmt::join(unmask_rules(), ", ")), value);
        settings.rule = rule;
      },
      [](const Unmasking& settings) {
        return settings.rule ? Json(std::string(name_of(*settings.rule))) : Json();
      });
}

Field unmask_threshold() {
  return of_unmasking(
      [](const Json& value, Unmasking& settings) { read(value, settings.threshold.emplace()); },
      [](const Unmasking& settings) {
        return settings.threshold ? Json(rounded(*settings.threshold)) : Json();
      });
}

// Without this setting, the engine's default applies, and nothing is written.
Field unmask_cache() {
  return of_unmasking(
      [](const Json& value, Unmasking& settings) {
        settings.cache = value.is_string() ? find_unmask_cache(value.get<std::string>()) : std::nullopt;
        if (!settings.cache) wrong_type(fmt::format("one of {}", fmt::join(unmask_caches(), ", ")), value);
      },
      [](const Unmasking& settings) {
        return settings.cache ? Json(std::string(name_of(*settings.cache))) : Json();
      });
}

const std::map<std::string, Field>& all_fields() {
  static const std::map<std::string, Field> table = {
      {"beams", beams()},
      {"length_penalty", length_penalty()},
      {"early_stopping", early_stopping()},
      {"decoder_ids", rare(of_request(&Request::decoder_prompt))},
      {"forced_bos_token_id", rare(of_request(&Request::forced_first))},
      {"max_tokens", of_request(&Request::max_tokens, 1)},
      {"n", of_request(&Request::n, 1)},
      {"ignore_eos", of_request(&Request::ignore_eos)},
      {"stop", of_request(&Request::stop)},
      {"cache_prompt", rare(of_request(&Request::cache_prompt))},
      {"adapter", rare(of_request(&Request::adapter))},
      {"cache_salt", rare(cache_salt())},
      {"priority", rare(of_request(&Request::priority, std::numeric_limits<int>::min()))},
      {"speculate", rare(of_request(&Request::speculate))},
      {"min_tokens", rare(of_request(&Request::min_tokens, 0))},
      {"stop_token_ids", rare(of_request(&Request::stop_token_ids))},
      {"include_stop_str_in_output", rare(of_request(&Request::include_stop_str_in_output))},
      {"choice", of_constraint("choice")},
      {"grammar", of_constraint("grammar")},
      {"json_object", of_constraint("json_object")},
      {"json_schema", of_constraint("json_schema")},
      {"json_space", of_constraint("json_space")},
      {"regex", of_constraint("regex")},
      {"max_thinking_tokens", thinking_limit()},
      {"steps", of_unmasking(&Unmasking::steps)},
      {"block_length", of_unmasking(&Unmasking::block_length)},
      {"unmask", unmask_rule()},
      {"threshold", unmask_threshold()},
      {"unmask_cache", unmask_cache()},
      {"bad_words", rare(of_request(&Request::bad_words))},
      {"bad_words_ids", rare(of_request(&Request::bad_words_ids))},
      {"logit_bias", rare(of_sampling(&SamplingParams::logit_bias))},
      {"temperature", of_sampling(&SamplingParams::temperature)},
      {"top_k", top_k()},
      {"top_p", of_sampling(&SamplingParams::top_p)},
      {"min_p", of_sampling(&SamplingParams::min_p)},
      {"repetition_penalty", of_sampling(&SamplingParams::repetition_penalty)},
      {"presence_penalty", of_sampling(&SamplingParams::presence_penalty)},
      {"frequency_penalty", of_sampling(&SamplingParams::frequency_penalty)},
      {"seed", of_sampling(&SamplingParams::seed)},
      {"logprobs", of_sampling(&SamplingParams::logprobs, -1)},
  };
  return table;
}

std::string known_fields() {
  std::vector<std::string> names = {"prompt", "ids", "messages", "id"};
  for (const auto& [name, field] : all_fields()) names.push_back(name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

void set_fields(const nlohmann::json& fields, Request& request) {
  require_one_constraint(fields);
  for (const auto& [name, value] : fields.items()) {
    const auto field = all_fields().find(name);
    require<RequestError>(field != all_fields().end(), "unknown field `{}`; a line may have {}", name,
                          known_fields());
    try {
      field->second.set(value, request);
    } catch (const RequestError& error) {
      throw_error<RequestError>("`{}`: {}", name, error.what());
    }
  }
}

bool is_field(const std::string& name) { return all_fields().contains(name); }

nlohmann::json fields_of(const Request& request) {
  Json fields = Json::object();
  for (const auto& [name, field] : all_fields()) {
    if (Json value = field.get(request); !value.is_null()) fields[name] = std::move(value);
  }
  return fields;
}

}  // namespace tp
