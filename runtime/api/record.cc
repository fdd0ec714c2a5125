#include "runtime/api/record.h"

#include "model/files/json_fault.h"
#include "tp/internal/require.h"

#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kPlainMembers = 6;  // members of a mark without log-probabilities

// JSON has no infinity.
Json number_of(float logprob) {
  return logprob == -std::numeric_limits<float>::infinity() ? Json() : Json(logprob);
}

float logprob_of(const Json& number) {
  return number.is_null() ? -std::numeric_limits<float>::infinity() : number.get<float>();
}

std::size_t count_of(const Json& number) {
  require<RequestError>(number.is_number_unsigned(), "expected a number of at least 0");
  return number.get<std::size_t>();
}

// A token's id, or a time.
template <class Integer>
Integer integer_of(const Json& number) {
  require<RequestError>(number.is_number_integer(), "expected a whole number");
  return number.get<Integer>();
}

RecordedToken token_of(const Json& mark) {
  require<RequestError>(mark.is_array() && (mark.size() == kPlainMembers || mark.size() == kPlainMembers + 2),
                        "a mark has the wrong length");
  RecordedToken token{.prompt = count_of(mark[0])};
  TokenEvent& event = token.event;
  require<RequestError>(count_of(mark[1]) < kMaxSamples, "there is no such continuation");
  event.sample = mark[1].get<int>();
  event.token = integer_of<TokenId>(mark[2]);
  event.cached_tokens = count_of(mark[3]);
  event.drafted_tokens = count_of(mark[4]);
  event.accepted_tokens = count_of(mark[5]);
  if (mark.size() == kPlainMembers) return token;
  event.logprob = TokenLogprob{event.token, logprob_of(mark[6])};
  for (const Json& top : mark[7])
    event.top_logprobs.push_back({integer_of<TokenId>(top.at(0)), logprob_of(top.at(1))});
  return token;
}

}  // namespace

std::string mark_of(std::size_t prompt, const TokenEvent& event) {
  if (!event.logprob) {
    return fmt::format("[{},{},{},{},{},{}]", prompt, event.sample, event.token, event.cached_tokens,
                       event.drafted_tokens, event.accepted_tokens);
  }
  Json mark = {prompt,
               event.sample,
               event.token,
               event.cached_tokens,
               event.drafted_tokens,
               event.accepted_tokens,
               number_of(event.logprob->logprob),
               Json::array()};
  for (const TokenLogprob& top : event.top_logprobs)
    mark.back().push_back(Json::array({top.id, number_of(top.logprob)}));
  return mark.dump();
}

std::string mark_comment(std::string_view mark) { return fmt::format("{}{}\n\n", kMarkBegin, mark); }

std::string record_text(const Record& record, std::string_view marks) {
  if (!marks.empty()) marks.remove_suffix(1);
  return fmt::format(R"({{"id":{},"created":{},"seed":{},"begun":{},"tokens":[{}]}})", Json(record.id).dump(),
                     record.created, record.seed, record.begun, marks);
}

Record parse_record(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    Record record{.id = json.at("id").get<std::string>(),
                  .created = integer_of<std::int64_t>(json.at("created")),
                  .seed = count_of(json.at("seed")),
                  .begun = json.at("begun").get<bool>()};
    for (const Json& mark : json.at("tokens")) record.tokens.push_back(token_of(mark));
    return record;
  } catch (const Json::exception& error) {
    throw_error<RequestError>("the record of the answer is not valid: {}", json_fault(error));
  }
}

}  // namespace tp
